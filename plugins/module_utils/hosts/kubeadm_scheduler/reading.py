# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The files of a control-plane host that a plan for its kube-scheduler needs."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from ..common.certificate import read_certificate
from ..common.files import read_text

NAME = "kube-scheduler"
KUBELET = "/var/lib/kubelet/pki/kubelet-client-current.pem"


class Place(NamedTuple):
    """A host in the inventory, the name of its Node, and the places of its files. ``folder`` is that of the role."""

    host: str
    manifest_path: str
    folder: str
    node: str = ""

    @property
    def configurations(self) -> Path:
        return Path(self.folder, "scheduler")

    def backup(self, name: str) -> str:
        """Return the path of a kept manifest."""
        return str(Path(self.folder, "backup", f"{name}.yaml"))


def read_host(place: Place) -> dict[str, Any]:
    """Return the texts of a host, the name of its Node, and what prevents a change. A file that does not exist has no text."""
    try:
        manifest = Path(place.manifest_path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        remedy = "set extended_scheduler_manifest_path to the manifest of kube-scheduler, or remove the host from the control-plane hosts"
        return {"problems": [f"{place.host}: {place.manifest_path} cannot be read ({error}): {remedy}"]}
    used = re.search(rf"{re.escape(str(place.configurations))}/[^\s/,'\"\]]+", manifest)
    # The private key is in the same file.
    kubelet = re.search("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", read_text(KUBELET), re.DOTALL)
    certificate = read_certificate(base64.b64encode(kubelet.group().encode()).decode()) if kubelet else None
    node = certificate.common_name.removeprefix("system:node:") if certificate else ""
    remedy = "check that its kubelet works"
    return {
        "manifest": manifest,
        "original": read_text(place.backup("original")),
        "previous": read_text(place.backup("previous")),
        "config": read_text(used.group()) if used else "",
        "node": node,
        "others": {str(file): text for file in _others(Path(place.manifest_path)) if (text := _metadata(read_text(str(file))))},
        "problems": [] if node else [f"{place.host}: the name of its Node is not known, because {KUBELET} has no certificate: {remedy}"],
    }


def _others(manifest: Path) -> list[Path]:
    """Return the other files of the folder. The kubelet reads each file whose name does not begin with a dot."""
    return [file for file in sorted(manifest.parent.glob("[!.]*")) if file.is_file() and file.name != manifest.name]


def _metadata(text: str) -> str:
    """Return the metadata of a manifest in YAML or JSON, if the name of the scheduler is in it. A host has no library for YAML."""
    try:
        found = json.dumps({"metadata": json.loads(text)["metadata"]})
    except (KeyError, TypeError, ValueError):
        block = re.search(r"^(['\"]?)metadata\1[ ]*:.*\n(?:(?:[ \t#].*)?\n)*", text + "\n", re.MULTILINE)
        found = block.group() if block else ""
    return found if NAME in found else ""
