# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The files of Secrets and ConfigMaps that the settings of an extender name, such as the token for Prometheus.

The path of such a file names the object: ``/etc/extender/secrets/NAME/KEY`` or ``/etc/extender/configmaps/NAME/KEY``. A static pod cannot
use them: the administrator puts its files into the folder of its settings on each host. A unit of systemd reads any file of its host.
"""

from __future__ import annotations

import hashlib
import re
import typing as t
from collections.abc import Iterator, Mapping

ROOT = "/etc/extender"
FOLDERS = {"secrets": "Secret", "configmaps": "ConfigMap"}
FORM = f"{ROOT}/secrets/NAME/KEY for a key of a Secret in kube-system, or {ROOT}/configmaps/NAME/KEY for one of a ConfigMap"
HOST_FORM = (
    "a static pod has no Secrets, so put the file into the folder extender of extended_scheduler_folder on each host, and write {path}"
)
NAMING = ("bearer_token_file", "password_file", "ca_file", "cert_file", "key_file", "kubeconfig")
"""The settings of sources that name a file."""
_HOST_PATH = re.compile(r"/etc/kube-scheduling/[A-Za-z0-9_-][A-Za-z0-9._-]*")
_PATH = re.compile(rf"{ROOT}/(secrets|configmaps)/([a-z0-9]([a-z0-9.-]*[a-z0-9])?)/([A-Za-z0-9._-]+)")


class MountedFile(t.NamedTuple):
    """One key of a Secret or a ConfigMap."""

    kind: str
    name: str
    key: str

    @property
    def folder(self) -> str:
        """Return the folder in the container in which all keys of the object are files."""
        return f"{ROOT}/{next(folder for folder, kind in FOLDERS.items() if kind == self.kind)}/{self.name}"

    @property
    def volume(self) -> str:
        """Return the name of the volume. The name of an object may be longer than that of a volume, and may have dots."""
        return f"files-{hashlib.sha256(self.folder.encode()).hexdigest()[:12]}"


def mounted_files(settings: Mapping[str, t.Any]) -> list[MountedFile]:
    """Return the files that the settings name, sorted."""
    found = (_PATH.fullmatch(path) for _setting, path in named_paths(settings))
    return sorted({MountedFile(FOLDERS[match[1]], match[2], match[4]) for match in found if match is not None})


def file_mistakes(settings: Mapping[str, t.Any], shape: str) -> Iterator[str]:
    """Yield a sentence for each named file that the extender cannot read. ``shape``: that of the role."""
    for setting, path in named_paths(settings):
        if shape == "systemd":
            if not path.startswith("/"):
                yield f" has {setting} {path}: write an absolute path on the hosts"
        elif shape == "kubeadm":
            if _HOST_PATH.fullmatch(path) is None:
                remedy = HOST_FORM.format(path=f"/etc/kube-scheduling/{path.rpartition('/')[2]}")
                yield f" has {setting} {path}, and the container has no such file: {remedy}"
        elif _PATH.fullmatch(path) is None:
            yield f" has {setting} {path}, and the container has no such file: write {FORM}"


def named_paths(settings: Mapping[str, t.Any]) -> Iterator[tuple[str, str]]:
    """Yield each setting of a source that names a file, and the path. A wrong type is named by the program itself."""
    sources = settings.get("sources")
    for source, values in sources.items() if isinstance(sources, Mapping) else ():
        yield from _paths_in(f"sources.{source}", values)


def _paths_in(place: str, values: t.Any) -> Iterator[tuple[str, str]]:
    for name, value in values.items() if isinstance(values, Mapping) else ():
        if name in NAMING and isinstance(value, str) and value:
            yield f"{place}.{name}", value
        yield from _paths_in(f"{place}.{name}", value)
