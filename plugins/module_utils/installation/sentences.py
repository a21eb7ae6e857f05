# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Sentences about mistakes that the variables of several roles can have."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterable, Iterator, Mapping

CONTROL_PLANE = "kube_control_plane"


def config_mistakes(name: str, settings: Mapping[str, t.Any] | None) -> Iterator[str]:
    """Yield a sentence for each ``scheduler_config`` in the settings of a program that is no key of a ConfigMap."""
    given = (settings or {}).get("scheduler_config") or []
    entries = [entry.strip() for entry in given.split(",")] if isinstance(given, str) else given if isinstance(given, list) else []
    for entry in entries:
        if not str(entry).startswith("configmap:"):
            yield (
                f"{name} has the scheduler_config {entry}, and the container has no such file: copy it into a ConfigMap, and write"
                " configmap:NAMESPACE/NAME/KEY"
            )


def image_mistakes(name: str, image: t.Any) -> Iterator[str]:
    """Yield a sentence if there is no image."""
    if not image:
        yield f"{name} is empty: set it to the reference of the service image, which is service_image_result.reference"


def path_mistakes(variables: Mapping[str, t.Any], names: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each path on hosts that is not absolute or ends with a slash. Files are also removed by these paths."""
    for name in names:
        if not re.match("/.*[^/]$", str(variables[name])):
            yield f"{name} is {variables[name]}: set it to an absolute path on the hosts, without / at the end"


def user_mistakes(name: str, user: t.Any) -> Iterator[str]:
    """Yield a sentence for a user of Kubernetes itself."""
    if str(user).startswith("system:"):
        yield f"{name} is {user}: names that begin with system: belong to Kubernetes, so choose another one"


def secret_mistakes(name: str, secrets: t.Any) -> Iterator[str]:
    """Yield a sentence if a static pod has Secrets for its image."""
    if secrets:
        yield f"{name} is set, and a static pod cannot use Secrets: give the credentials to the container runtime of the hosts"


def host_mistakes(name: str, hosts: Iterable[t.Any], groups: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield a sentence for each host that is not in the inventory."""
    for host in hosts:
        if host not in groups["all"]:
            yield f"{name} has {host}, which is not in the inventory: correct the name, or add the host"
