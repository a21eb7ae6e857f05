# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of a kind cluster: its control planes and zones, the small allocatable resources of its nodes, and the audit log."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.scenario import ZONE_LABEL

ZONES = ("zone-a", "zone-b")
"""One worker in each."""
AUDIT_POLICY = "/etc/kubernetes/audit/audit-policy.yaml"
AUDIT_LOG = "/var/log/kubernetes/audit/audit.log"
MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Resources:
    """CPUs in thousandths, and memory in mebibytes."""

    cpu_m: int
    memory_mi: int


ALLOCATABLE = Resources(cpu_m=1000, memory_mi=3072)
"""The resources that each node offers to pods. The containers of all nodes see the whole machine, so everything would fit."""


def machine() -> Resources:
    """The resources of this machine, which every node claims as its capacity."""
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # Rounded up, so that the nodes never offer more than ALLOCATABLE.
    return Resources(cpu_m=1000 * (os.cpu_count() or 1), memory_mi=math.ceil(memory_bytes / MEBIBYTE))


def reserved(capacity: Resources) -> dict[str, str]:
    """Return the `systemReserved` that makes the allocatable resources of a node small."""
    cpu_m = max(0, capacity.cpu_m - ALLOCATABLE.cpu_m)
    memory_mi = max(0, capacity.memory_mi - ALLOCATABLE.memory_mi)
    return {"cpu": f"{cpu_m}m", "memory": f"{memory_mi}Mi"}


def render(*, audit_policy: Path, audit_logs: Sequence[Path], capacity: Resources, own_network: bool) -> str:
    """Return the configuration as YAML.

    `audit_logs`: the files of the control planes. There is a control plane for each of them. `own_network`: the node image has no CNI
    plugin, `lab.kind.network` does its work.
    """
    policy = {"hostPath": str(audit_policy.parent), "containerPath": str(Path(AUDIT_POLICY).parent), "readOnly": True}
    logs = [{"hostPath": str(file.parent), "containerPath": str(Path(AUDIT_LOG).parent)} for file in audit_logs]
    control_planes: list[dict[str, Any]] = [{"role": "control-plane", "extraMounts": [policy, log]} for log in logs]
    workers: list[dict[str, Any]] = [{"role": "worker", "labels": {ZONE_LABEL: zone}} for zone in ZONES]
    config: dict[str, Any] = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "kubeadmConfigPatches": [yaml.safe_dump(_kubelet(capacity)), yaml.safe_dump(_api_server())],
        "nodes": [*control_planes, *workers],
    }
    if own_network:
        config["networking"] = {"disableDefaultCNI": True}
    return yaml.safe_dump(config, sort_keys=False)


def _kubelet(capacity: Resources) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        # Machines with cgroups of version 1 can run the cluster, too.
        "failCgroupV1": False,
        "systemReserved": reserved(capacity),
    }


def _api_server() -> dict[str, Any]:
    volumes = [
        {"name": "audit-policy", "hostPath": str(Path(AUDIT_POLICY).parent), "mountPath": str(Path(AUDIT_POLICY).parent), "readOnly": True},
        {"name": "audit-log", "hostPath": str(Path(AUDIT_LOG).parent), "mountPath": str(Path(AUDIT_LOG).parent), "readOnly": False},
    ]
    # Without a version kind converts it for the version of kubeadm's configuration that it writes.
    return {
        "kind": "ClusterConfiguration",
        "apiServer": {
            "extraArgs": {"audit-policy-file": AUDIT_POLICY, "audit-log-path": AUDIT_LOG},
            "extraVolumes": [volume | {"pathType": "DirectoryOrCreate"} for volume in volumes],
        },
    }
