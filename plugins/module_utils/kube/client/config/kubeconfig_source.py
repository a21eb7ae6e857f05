# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The source of connection settings, for the error if they cannot be used. It keeps and shows no secrets."""

from __future__ import annotations

import os
import typing as t
from dataclasses import dataclass
from pathlib import Path

from .files import ConnectionSettingsError, exists, path_of
from .secrets import is_content
from .yaml_text import load_yaml

DEFAULT_FILE = "~/.kube/config"
NO_CLUSTER = (
    "no cluster given: set the option kubeconfig (rebalance_kubeconfig or rescue_kubeconfig in the playbooks), KUBECONFIG or K8S_AUTH_*; "
    f"{DEFAULT_FILE} is missing or has no current-context"
)


def without_login(url: str) -> str:
    """Return the URL without user name and password, for messages."""
    scheme, separator, rest = url.rpartition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}"


@dataclass(frozen=True)
class Source:
    """The source of the settings as it was given.

    ``kubeconfig`` is a path, several paths separated by colons, or the content as a dict.
    ``host`` is the API server's address if there is no kubeconfig. ``cluster`` and ``user`` are names of entries of the kubeconfig that
    replace those of the context.
    """

    kubeconfig: t.Any = None
    context: str = ""
    host: str = ""
    cluster: str = ""
    user: str = ""

    def __str__(self) -> str:
        if self.host and not self.kubeconfig:
            return f"host {without_login(self.host)}"
        try:
            name = os.pathsep.join(map(str, self.files)) or "(given as a dict)"
        except ConnectionSettingsError:  # the given text may contain secrets
            name = "(not a path)"
        chosen = {"context": self.context, "cluster": self.cluster, "user": self.user}
        return f"kubeconfig {name}" + "".join(f", {kind} {entry}" for kind, entry in chosen.items() if entry)

    @property
    def files(self) -> list[Path]:
        """Return the files that are read. There are none if a dict was given.

        Raises ConnectionSettingsError if the given text is not a path.
        """
        if isinstance(self.kubeconfig, dict):
            return []
        given = str(self.kubeconfig or os.environ.get("KUBECONFIG") or DEFAULT_FILE)
        if is_content(given):
            name = "the option kubeconfig or the variable K8S_AUTH_KUBECONFIG" if self.kubeconfig else "the variable KUBECONFIG"
            raise ConnectionSettingsError(f"{name} has the content of a kubeconfig, and a path is expected: write the content to a file")
        return [path_of(path) for path in given.split(os.pathsep) if path]

    @property
    def nothing_given(self) -> bool:
        """Return whether no cluster was given and the default file does not name one either."""
        if self.kubeconfig or self.context or self.host or os.environ.get("KUBECONFIG"):
            return False
        try:
            files = self.files
        except ConnectionSettingsError:  # the user has no home folder
            return True
        try:
            return not any(map(exists, files)) or any(not content.get("current-context") for content in self._contents())
        except ConnectionSettingsError:  # the default file cannot be read
            return False

    def _contents(self) -> list[dict[str, t.Any]]:
        """Return the kubeconfigs that can be parsed."""
        if isinstance(self.kubeconfig, dict):
            return [self.kubeconfig]
        found = map(_content, self.files)
        return [content for content in found if content is not None]


def _content(file: Path) -> t.Optional[dict[str, t.Any]]:
    try:
        content = load_yaml(file.read_bytes())
    except (OSError, ConnectionSettingsError):
        return None
    return content if isinstance(content, dict) else None
