# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The age of the oldest hold counts from the hold in the cluster, also after a change of the leader."""

from __future__ import annotations

import json
import time
from datetime import datetime

from lab.cluster import Cluster
from tests.integration.rescue.scene import Scene
from tests.integration.rescue.test_interrupted import attempts
from tests.integration.rescuer.conftest import Start
from tests.integration.rescuer.daemons import Daemon
from tests.integration.rescuer.test_rescuer import LONG, LONG_S, full_node, leader_and_follower, wait_bound, wait_free
from tests.integration.workloads import wait_until


def age(daemon: Daemon) -> float:
    return daemon.metric("oldest_hold_seconds")


def test_age_of_a_hold_is_the_same_for_the_next_leader_and_0_after_the_release(scene: Scene, cluster: Cluster, daemons: Start) -> None:
    leader, follower = leader_and_follower(daemons, LONG, "--pod-scheduled-timeout=5m", "--evict-timeout=90s")
    assert age(leader) == age(follower) == 0
    assert leader.metric("hold_limit_seconds") == 390
    node = full_node(scene, grace=LONG_S)
    pod = scene.critical("dns")
    wait_until(lambda: leader.said("pod evicted"), what="an eviction")
    since_s = datetime.fromisoformat(json.loads(attempts(cluster)[f"hold.{node}"])["hold"]["since"]).timestamp()
    leader.kill()
    wait_until(lambda: follower.leads, what="the next leader")
    wait_until(lambda: age(follower) > 0, what="the hold")
    before_s = time.time()
    shown_s = age(follower)
    # The lab's API server has the clock of this machine, and says its time in whole seconds.
    assert before_s - since_s - 1 <= shown_s <= time.time() - since_s + 1
    scene.end_terminating("web")
    wait_bound(scene, pod, node, follower)
    wait_free(scene)
    wait_until(lambda: age(follower) == 0, what="no hold")
