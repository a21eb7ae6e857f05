# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The versions of ansible-core and kubernetes.core on the controller, and the version and the clock of the API server."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

READS = ("__site_minimum_versions", "__site_max_clock_skew_s", "__site_cluster", "ansible_version")
NAMES = {"ansible_core": "ansible-core", "kubernetes_core": "kubernetes.core", "kubernetes": "Kubernetes"}


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each version that is too old, and for clocks that differ. A cluster that has not answered has none."""
    cluster = variables["__site_cluster"] or {}
    versions = {"ansible_core": variables["ansible_version"]["full"], "kubernetes_core": cluster.get("kubernetes_core", "")}
    versions["kubernetes"] = cluster.get("version", "").lstrip("v")
    found = [
        f"{NAMES[name]} is {versions[name]}: update it to {minimum} or later"
        for name, minimum in variables["__site_minimum_versions"].items()
        if versions[name] and _numbers(versions[name]) < _numbers(minimum)
    ]
    skew = cluster.get("clock_skew_s", 0)
    if abs(skew) > int(variables["__site_max_clock_skew_s"]):
        where = f"{abs(skew)} s {'ahead of' if skew > 0 else 'behind'} the clock of the API server"
        found.append(f"the clock of the controller is {where}: synchronise both, or raise site_max_clock_skew")
    return found


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall("[0-9]+", version)[:3]]
