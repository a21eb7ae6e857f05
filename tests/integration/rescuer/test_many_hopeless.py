# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pods that no eviction helps, as many as keep the rescuer busy all the time, and a pod that can be rescued among them."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from lab.cluster import Cluster
from tests.integration.modules.module_process import COLLECTIONS
from tests.integration.rescue.scene import Scene
from tests.integration.workloads import wait_until

HOPELESS = 60
A_FEW = 20
"""Judgements that may be made until something new is known."""

# Judgements that take as long as on a cluster of thousands of nodes; each pod that is judged is written into a file.
SLOW = """
import sys, time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.planner import RescuePlanner
from ansible_collections.onprem.kube_scheduling.services.rescuer.cli import main

judge, judged = RescuePlanner.plan_rescue, open({file!r}, "a", buffering=1)

def slow(planner, pod, facts, **how):
    judged.write(pod.metadata.name + "\\n")
    time.sleep(0.25)
    return judge(planner, pod, facts, **how)

RescuePlanner.plan_rescue = slow
sys.exit(main(sys.argv[1:], {{}}))
"""


def test_a_possible_rescue_and_a_signal_do_not_wait_for_pods_that_no_eviction_helps(scene: Scene, cluster: Cluster, tmp_path: Path) -> None:
    (node,) = scene.nodes(cpu="1")
    scene.occupant("web", node, cpu="900m")
    for number in range(HOPELESS):
        scene.critical(f"hopeless-{number}", cpu=f"{2000 + number}m", wait=False)
    scene.wait_unschedulable(f"{scene.id}-hopeless-{HOPELESS - 1}")
    file = tmp_path / "judged"
    flags = ("--listen-address=", "--settle-time=0", f"--kubeconfig={cluster.service_account('rescuer')}")
    with (tmp_path / "log").open("wb") as log:
        command = [sys.executable, "-c", SLOW.format(file=str(file)), *flags]
        process = subprocess.Popen(command, stderr=log, env={"PYTHONPATH": str(COLLECTIONS)})
    try:
        wait_until(lambda: len(set(judged(file))) == HOPELESS, timeout_s=120, what="the first round")
        pod = scene.critical("dns")
        before = len(judged(file))
        wait_until(lambda: pod in judged(file), timeout_s=120, what="the judgement of the pod that can be rescued")
        assert judged(file).index(pod) - before < A_FEW
        wait_until(lambda: scene.bound_to(pod) == node, timeout_s=60, what="the rescue")
        wait_until(lambda: scene.held() == [], timeout_s=60, what="the release")
        before = len(judged(file))
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert len(judged(file)) - before < A_FEW
    finally:
        process.kill()
        process.wait()


def judged(file: Path) -> list[str]:
    """The pods that were judged, in order."""
    return file.read_text().splitlines() if file.exists() else []
