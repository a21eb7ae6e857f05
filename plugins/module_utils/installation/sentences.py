# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Sentences about mistakes that the variables of several roles can have."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterable, Mapping

CONTROL_PLANE = "kube_control_plane"


def config_mistakes(name: str, settings: Mapping[str, t.Any] | None) -> list[str]:
    """Return a sentence for each ``scheduler_config`` in the settings of a program that is no key of a ConfigMap."""
    given = (settings or {}).get("scheduler_config") or []
    entries = [entry.strip() for entry in given.split(",")] if isinstance(given, str) else given if isinstance(given, list) else []
    return [
        f"{name} has the scheduler_config {entry}, and the container has no such file: copy it into a ConfigMap, and write"
        " configmap:NAMESPACE/NAME/KEY"
        for entry in entries
        if not str(entry).startswith("configmap:")
    ]


def image_mistakes(name: str, image: t.Any) -> list[str]:
    """Return a sentence if there is no image."""
    return [] if image else [f"{name} is empty: set it to the reference of the service image, which is service_image_result.reference"]


def path_mistakes(variables: Mapping[str, t.Any], names: Iterable[str]) -> list[str]:
    """Return a sentence for each path on hosts that is not absolute or ends with a slash. Files are also removed by these paths."""
    return [
        f"{name} is {variables[name]}: set it to an absolute path on the hosts, without / at the end"
        for name in names
        if not re.match("/.*[^/]$", str(variables[name]))
    ]


def user_mistakes(name: str, user: t.Any) -> list[str]:
    """Return a sentence for a user of Kubernetes itself."""
    if str(user).startswith("system:"):
        return [f"{name} is {user}: names that begin with system: belong to Kubernetes, so choose another one"]
    return []


def secret_mistakes(name: str, secrets: t.Any) -> list[str]:
    """Return a sentence if a static pod has Secrets for its image."""
    if secrets:
        return [f"{name} is set, and a static pod cannot use Secrets: give the credentials to the container runtime of the hosts"]
    return []


def host_mistakes(name: str, hosts: Iterable[t.Any], groups: Mapping[str, Iterable[str]]) -> list[str]:
    """Return a sentence for each host that is not in the inventory."""
    known = set(groups["all"])
    return [f"{name} has {host}, which is not in the inventory: correct the name, or add the host" for host in hosts if host not in known]
