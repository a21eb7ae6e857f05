# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The processes of a static pod, by their command line and the lines of ``/proc/PID/cgroup``."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common import static_pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.static_pod import StaticPod

UID = "0f9c3b1e5d7a4c2e8b6a1d3f5e7c9b0a"
"""The kubelet calculates a UID without hyphens. A manifest can have one with hyphens."""
GIVEN = "3f0c2f1e-7d1b-4b7e-9a5b-1f2e3d4c5b6a"
CONTAINER = "8d4c1b0a9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c5b4a39281706f5e4"
TENANT = "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod11111111_2222_3333_4444_555555555555.slice"
USER = "/user.slice/user-1000.slice/user@1000.service"


POD = StaticPod("kube-scheduler", "cp-1")
COMMAND = ["kube-scheduler", "--leader-elect=true"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(static_pod, "LOGS", str(tmp_path / "pods"))
    return tmp_path


def matches(folder: Path, cgroup: str, *pods: str, command: str = "kube-scheduler\0--leader-elect=true\0") -> bool:
    """Return whether a process with this cgroup is in the pod. The kubelet has made folders of these names."""
    for name in pods:
        (folder / "pods" / name).mkdir(parents=True)
    process = folder / "process"
    process.mkdir(exist_ok=True)
    (process / "cgroup").write_text(cgroup)
    (process / "cmdline").write_text(command)
    return POD.runs(process, [["other"], COMMAND])


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
def test_a_process_in_a_container_of_the_static_pod_is_found(uid: str, cgroup: str, folder: Path) -> None:
    assert not matches(folder, cgroup, f"kube-system_kube-scheduler-cp-1_{uid[:-1]}f")
    assert matches(folder, cgroup, f"kube-system_kube-scheduler-cp-1_{uid}")
    assert not matches(folder, cgroup, command="kube-scheduler\0--leader-elect=true\0--config=/tmp/x\0")


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
        # The name of a cgroup of a user has signs at which Python can end a line.
        f"0::{USER}/x\x0c0::/kubepods/burstable/pod{UID}/{CONTAINER}\n",
        f"0::{USER}/x\x850::/kubepods/burstable/pod{UID}/{CONTAINER}\n",
        # The reader of /proc is in another cgroup namespace.
        f"0::/../../kubepods/burstable/pod{UID}/{CONTAINER}\n",
    ],
)
def test_a_process_elsewhere_is_not_found(cgroup: str, folder: Path) -> None:
    assert not matches(folder, cgroup, f"kube-system_kube-scheduler-cp-1_{UID}")


@pytest.mark.parametrize(
    "names",
    [
        (),
        (f"kube-system_kube-scheduler-cp-2_{UID}",),
        (f"kube-system_kube-scheduler-cp-1-x_{UID}",),
        (f"tenant_kube-scheduler-cp-1_{UID}",),
        ("kube-system_kube-scheduler-cp-1_",),
        ("kube-system_kube-scheduler-cp-1_.*",),
    ],
)
def test_without_a_folder_of_the_kubelet_no_process_is_found(names: tuple[str, ...], folder: Path) -> None:
    assert not matches(folder, f"0::/kubepods/burstable/pod{UID}/{CONTAINER}\n0::/kubepods/burstable/pod/{CONTAINER}\n\n", *names)
