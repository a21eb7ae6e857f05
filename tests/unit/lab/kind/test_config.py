# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration of a kind cluster makes nodes in two zones with few allocatable resources, and writes an audit log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.kind.config import ALLOCATABLE, AUDIT_LOG, AUDIT_POLICY, Resources, machine, render, reserved

MACHINE = Resources(cpu_m=2000, memory_mi=24_000)


def rendered(*, own_network: bool = True, audit_logs: Sequence[str] = ("/c/log/a.log",)) -> dict[str, Any]:
    logs = [Path(name) for name in audit_logs]
    text = render(audit_policy=Path("/c/policy/p.yaml"), audit_logs=logs, capacity=MACHINE, own_network=own_network)
    config: dict[str, Any] = yaml.safe_load(text)
    return config


def patch(kind: str) -> dict[str, Any]:
    patches = [yaml.safe_load(text) for text in rendered()["kubeadmConfigPatches"]]
    return next(found for found in patches if found["kind"] == kind)


def test_each_worker_is_in_a_zone_of_its_own() -> None:
    control_plane, *workers = rendered()["nodes"]
    assert control_plane["role"] == "control-plane" and "labels" not in control_plane
    assert [node["labels"] for node in workers] == [{"topology.kubernetes.io/zone": "zone-a"}, {"topology.kubernetes.io/zone": "zone-b"}]


def test_all_but_the_allocatable_resources_are_reserved() -> None:
    assert patch("KubeletConfiguration")["systemReserved"] == {"cpu": "1000m", "memory": f"{24_000 - ALLOCATABLE.memory_mi}Mi"}


def test_a_machine_smaller_than_the_allocatable_resources_reserves_nothing() -> None:
    assert reserved(Resources(cpu_m=500, memory_mi=1000)) == {"cpu": "0m", "memory": "0Mi"}


def test_the_memory_of_this_machine_is_rounded_up() -> None:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemTotal:"))
    assert machine().memory_mi * 1024 >= int(line.split()[1])


def test_the_api_server_writes_its_audit_log_into_a_mounted_folder() -> None:
    server = patch("ClusterConfiguration")["apiServer"]
    assert server["extraArgs"] == {"audit-policy-file": AUDIT_POLICY, "audit-log-path": AUDIT_LOG}
    mounted = {mount["containerPath"]: mount["hostPath"] for mount in rendered()["nodes"][0]["extraMounts"]}
    assert mounted == {str(Path(AUDIT_POLICY).parent): "/c/policy", str(Path(AUDIT_LOG).parent): "/c/log"}
    assert {volume["hostPath"] for volume in server["extraVolumes"]} == set(mounted)


def test_each_control_plane_writes_into_a_folder_of_its_own() -> None:
    nodes = rendered(audit_logs=["/c/log/a.log", "/c/log/2/a.log", "/c/log/3/a.log"])["nodes"]
    assert [node["role"] for node in nodes] == ["control-plane"] * 3 + ["worker"] * 2
    assert [node["extraMounts"][1]["hostPath"] for node in nodes[:3]] == ["/c/log", "/c/log/2", "/c/log/3"]


@pytest.mark.parametrize(("own_network", "networking"), [(True, {"disableDefaultCNI": True}), (False, None)])
def test_kinds_network_is_switched_off_only_for_an_image_without_it(own_network: bool, networking: object) -> None:
    assert rendered(own_network=own_network).get("networking") == networking
