# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rescuer is killed after each of its writes: the next program ends the rescue, evicts no pod twice and leaves no hold."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.cluster import Cluster
from tests.integration.modules.module_process import COLLECTIONS
from tests.integration.rescue.rescues import Rescues
from tests.integration.rescue.scene import Scene
from tests.integration.rescue.test_interrupted import forget_lease
from tests.integration.workloads import wait_until

pytestmark = pytest.mark.never_repeated

# The rescuer, which kills itself right after the server has answered its n-th write. Dry runs and the Lease do not count.
PROGRAM = """
import os, signal, sys
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.services.rescuer.cli import main

last, file, writes = int(sys.argv[1]), sys.argv[2], []

def counted(name):
    write = getattr(KubeApi, name)

    def call(self, *args, **kwargs):
        answer = write(self, *args, **kwargs)
        resource = getattr(args[0], "role_name", "")
        if not kwargs.get("dry_run") and resource != "leases":
            writes.append(f"{name} {resource}".strip())
            with open(file, "w") as output:
                output.write(" | ".join(writes))
            if len(writes) == last:
                os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(KubeApi, name, call)

for name in ("json_patch", "merge_patch", "create", "evict", "create_event"):
    counted(name)
sys.exit(main(sys.argv[3:], {}))
"""
MAX_WRITES = 40
STEPS = range(1, 21)


def run_until_killed(cluster: Cluster, number: int, folder: Path, scene: Scene, pod: str) -> tuple[bool, str]:
    """Return whether the rescuer reached its n-th write, and its writes. If it did not, it is killed after the end of the rescue."""
    flags = ("--settle-time=0", "--listen-address=", "--housekeeping-interval=1s", f"--kubeconfig={cluster.kubeconfig}")
    log, writes = folder / "log", folder / "writes"
    with log.open("wb") as stream:
        command = [sys.executable, "-c", PROGRAM, str(number), str(writes), *flags]
        process = subprocess.Popen(command, stderr=stream, env={"PYTHONPATH": str(COLLECTIONS)})
    try:
        wait_until(
            lambda: process.poll() is not None or "pod no longer waits" in log.read_text(),
            timeout_s=60,
            what=lambda: f"the {number}. write or the end of the rescue of {pod}; {log.read_text()}",
        )
        return process.poll() == -signal.SIGKILL, writes.read_text() if writes.exists() else ""
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", STEPS)
def test_the_next_program_ends_the_rescue_of_a_rescuer_that_was_killed_after_any_write(
    scene: Scene, cluster: Cluster, rescues: Rescues, tmp_path: Path, number: int
) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="300m", replicas=3)
    pod = scene.critical("dns", cpu="600m")
    killed, writes = run_until_killed(cluster, number, tmp_path, scene, pod)
    print(writes)
    assert killed or number > len(writes.split(" | "))
    forget_lease(cluster)
    rescues.run(label_selector=f"scene={scene.id}")
    assert scene.bound_to(pod) == node, writes
    assert len(scene.evictions()) == 2 and len(set(scene.evictions())) == 2, writes
    assert scene.held() == [], writes


def test_the_steps_at_which_the_rescuer_is_killed_are_all_of_them(scene: Scene, cluster: Cluster, tmp_path: Path) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="300m", replicas=3)
    killed, writes = run_until_killed(cluster, MAX_WRITES, tmp_path, scene, scene.critical("dns", cpu="600m"))
    assert not killed and 0 < len(writes.split(" | ")) < max(STEPS), writes
    kinds = ["merge_patch configmaps", "json_patch nodes", "evict", "create_event", "json_patch pods/status"]
    assert [kind for kind in kinds if kind not in writes] == []
