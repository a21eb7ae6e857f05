# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Where the settings of a connection come from, for the error where they lead nowhere. Nothing secret is looked at."""

from __future__ import annotations

import os
import typing as t
from dataclasses import dataclass
from pathlib import Path

if t.TYPE_CHECKING:
    yaml: t.Any = None
else:
    try:
        import yaml
    except ImportError:

        class yaml:
            """Stand-in for the names used below."""

            class YAMLError(Exception):
                """Stand-in for yaml's base error."""


DEFAULT_FILE = "~/.kube/config"
NO_CLUSTER = (
    "no cluster given: set the option kubeconfig (rebalance_kubeconfig or rescue_kubeconfig in the playbooks), KUBECONFIG or K8S_AUTH_*; "
    f"{DEFAULT_FILE} is missing or has no current-context"
)


@dataclass(frozen=True)
class Source:
    """The settings as they were given.

    ``kubeconfig`` is a path, several with a colon between them, or the content; ``host`` the API server's address without kubeconfig.
    """

    kubeconfig: t.Any = None
    context: str = ""
    host: str = ""

    def __str__(self) -> str:
        if self.host and not self.kubeconfig:
            return f"host {self.host}"
        name = os.pathsep.join(map(str, self.files)) or "(given as a dict)"
        return f"kubeconfig {name}" + (f", context {self.context}" if self.context else "")

    @property
    def files(self) -> list[Path]:
        """The files that are read; none where the content was given."""
        if isinstance(self.kubeconfig, dict):
            return []
        given = str(self.kubeconfig or os.environ.get("KUBECONFIG") or DEFAULT_FILE)
        return [Path(path).expanduser() for path in given.split(os.pathsep) if path]

    @property
    def nothing_given(self) -> bool:
        """Nobody said which cluster, and the default file does not say it either."""
        if self.kubeconfig or self.context or self.host or os.environ.get("KUBECONFIG"):
            return False
        return not any(file.exists() for file in self.files) or any(not content.get("current-context") for content in self._contents())

    @property
    def mistake(self) -> str:
        """What is wrong with the settings, as far as their names and the file's contexts tell; empty where they tell nothing."""
        if self.host and not self.kubeconfig:
            return "there are no credentials beside the host: give api_key, or username and password, or cert_file and key_file"
        if self.files and not any(file.is_file() for file in self.files):  # of several, those that are missing are passed over
            return f"there is no file {', '.join(map(str, self.files))}"
        contexts = [name for content in self._contents() for name in _names(content.get("contexts"))]
        if self.context and contexts and self.context not in contexts:
            return f"there is no context {self.context} in it; it has {', '.join(contexts)}"
        return ""

    def _contents(self) -> list[dict[str, t.Any]]:
        """The kubeconfigs that can be read as such."""
        if isinstance(self.kubeconfig, dict):
            return [self.kubeconfig]
        found = map(_content, self.files)
        return [content for content in found if content is not None]


def _content(file: Path) -> t.Optional[dict[str, t.Any]]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return None
    return content if isinstance(content, dict) else None


def _names(contexts: t.Any) -> list[str]:
    entries = contexts if isinstance(contexts, list) else []
    return [str(entry["name"]) for entry in entries if isinstance(entry, dict) and "name" in entry]
