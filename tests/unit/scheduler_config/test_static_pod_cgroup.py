# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The processes of a static pod, by the lines of ``/proc/PID/cgroup`` that grep finds."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.filter.static_pod_cgroup import static_pod_cgroup

UID = "0f9c3b1e5d7a4c2e8b6a1d3f5e7c9b0a"
"""The kubelet calculates a UID without hyphens. A manifest can have one with hyphens."""
GIVEN = "3f0c2f1e-7d1b-4b7e-9a5b-1f2e3d4c5b6a"
CONTAINER = "8d4c1b0a9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a39281706f5e4"
TENANT = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod11111111_2222_3333_4444_555555555555.slice"
USER = "/user.slice/user-1000.slice/user@1000.service"


def mirror_pod(uid: str, name: str = "kube-scheduler-cp-1", node: str = "cp-1", key: str = "kubernetes.io/config.mirror") -> dict[str, Any]:
    return {"metadata": {"name": name, "annotations": {key: uid}}, "spec": {"nodeName": node}}


def matches(cgroup: str, *pods: dict[str, Any]) -> bool:
    """Return whether grep finds a line, as the role does."""
    pattern = static_pod_cgroup(list(pods), name="kube-scheduler", node="cp-1")
    found = subprocess.run(["grep", "-q", "-E", "-x", "-e", pattern], input=cgroup, text=True, capture_output=True)
    assert found.returncode in (0, 1), found.stderr
    return found.returncode == 0


@pytest.mark.parametrize(
    ("uid", "cgroup"),
    [
        (UID, f"0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID}.slice/cri-containerd-{CONTAINER}.scope\n"),
        (UID, f"0::/kubepods.slice/kubepods-pod{UID}.slice/crio-{CONTAINER}.scope/container\n"),
        (GIVEN, f"0::/kubepods.slice/kubepods-pod{GIVEN.replace('-', '_')}.slice/docker-{CONTAINER}.scope\n"),
        (UID, f"0::/kubepods/burstable/pod{UID}/{CONTAINER}\n"),
        (GIVEN, f"0::/kubepods/pod{GIVEN}/{CONTAINER}\n"),
        (UID, f"9:name=systemd:/\n3:cpu,cpuacct:/kubepods/besteffort/pod{UID}/{CONTAINER}\n0::/\n"),
        (
            UID,
            "12:memory:/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
            f"kubelet-kubepods-burstable-pod{UID}.slice/cri-containerd-{CONTAINER}.scope\n",
        ),
        (UID, f"8:pids:/kubelet/kubepods/burstable/pod{UID}/{CONTAINER}\n"),
    ],
)  # fmt: skip
def test_a_process_in_a_container_of_the_static_pod_is_found(uid: str, cgroup: str) -> None:
    assert matches(cgroup, mirror_pod(uid))
    assert not matches(cgroup, mirror_pod(f"{uid[:-1]}f"))


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/\n",
        "0::/system.slice/kube-scheduler.service\n",
        f"0::{TENANT}/cri-containerd-{CONTAINER}.scope\n",
        # A container or a user names cgroups below its own one.
        f"0::{TENANT}/cri-containerd-{CONTAINER}.scope/kubepods.slice/kubepods-pod{UID}.slice/cri-containerd-{CONTAINER}.scope\n",
        f"0::/kubepods/besteffort/pod{GIVEN}/{CONTAINER}/kubepods/burstable/pod{UID}/{CONTAINER}\n",
        f"0::{USER}/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{UID}.slice/cri-containerd-{CONTAINER}.scope\n",
        f"0::{USER}/kubepods/burstable/pod{UID}/{CONTAINER}\n",
        f"0::/lxc.payload.one/kubepods/burstable/pod{UID}/{CONTAINER}\n",
        f"0::{USER}/0::/kubepods/burstable/pod{UID}/{CONTAINER}\n",
        # The names are only parts of components, or are at another place.
        f"0::/kubepods/burstable/pod{UID}0/{CONTAINER}\n",
        f"0::/kubepods/burstable/0pod{UID}/{CONTAINER}\n",
        f"0::/kubepodsXslice/kubepods-podX{UID}.slice/cri-containerd-{CONTAINER}.scope\n",
        f"0::/kubepods.slice/kubepods-burstable-pod{UID}.slice/cri-containerd-{CONTAINER}.scope\n",
        f"0::/pod{UID}/{CONTAINER}\n",
        # The pod has the cgroup, and no container has it.
        f"0::/kubepods/burstable/pod{UID}\n",
        f"0::/kubepods/burstable/pod{UID}/\n",
        # The reader of /proc is in another cgroup namespace.
        f"0::/../../kubepods/burstable/pod{UID}/{CONTAINER}\n",
    ],
)
def test_a_process_elsewhere_is_not_found(cgroup: str) -> None:
    assert not matches(cgroup, mirror_pod(UID))


@pytest.mark.parametrize(
    "pods",
    [
        [],
        [mirror_pod(UID, name="kube-scheduler-cp-2", node="cp-2")],
        # A kubelet can make mirror pods with any name, and only on its own node.
        [mirror_pod(UID, node="worker-1")],
        # Users may change this annotation.
        [mirror_pod(UID, key="kubernetes.io/config.hash")],
        [mirror_pod("")],
        [mirror_pod(".*")],
        [{"metadata": {"name": "kube-scheduler-cp-1"}, "spec": {"nodeName": "cp-1"}}],
    ],
)
def test_without_a_mirror_pod_of_the_node_no_process_is_found(pods: list[dict[str, Any]]) -> None:
    assert not matches(f"0::/kubepods/burstable/pod{UID}/{CONTAINER}\n0::/kubepods/burstable/pod/{CONTAINER}\n\n", *pods)
