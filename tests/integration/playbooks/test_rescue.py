# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rescue.yml against a real control plane: the plan, the rescue, its tags and numbers, and mistakes in its variables."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from lab.layout import REPOSITORY
from tests.integration.playbooks.test_rebalance import UNREACHABLE
from tests.integration.rescue.conftest import scene
from tests.integration.rescue.conftest import separate_cluster as cluster
from tests.integration.rescue.scene import Scene
from tests.integration.roles.host_cases import play_cases
from tests.integration.roles.role_play import ansible_playbook

__all__ = ["cluster", "scene"]

PLAYBOOK = REPOSITORY / "playbooks" / "rescue.yml"


def play(scene: Scene, folder: Path, *arguments: str, result_format: str = "json") -> tuple[int, str]:
    given = ("-e", f"rescue_kubeconfig={scene.cluster.kubeconfig}", "-e", "rescue_settle_time=0")
    run = ansible_playbook(PLAYBOOK, *given, *arguments, folder=folder, environment={"ANSIBLE_CALLBACK_RESULT_FORMAT": result_format})
    return run.code, run.output


def stats_of(output: str, host: str = "localhost") -> dict[str, Any]:
    """The numbers that the play reports with set_stats."""
    found = re.search(r"^\s*RUN: (\{.*\})$", output, re.MULTILINE)
    assert found, output
    stats: dict[str, Any] = json.loads(found.group(1))["kube_scheduling_rescue"][host]
    return stats


def test_tag_rescue_and_a_run_that_does_not_wait(scene: Scene, tmp_path: Path) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m", grace=20)
    pod = scene.critical("dns")
    code, output = play(scene, tmp_path, "--tags", "rescue", "-e", "rescue_wait=false", "-e", "rescue_wait_timeout=5m")
    assert code == 0 and f"kube-system/{pod}: waits for a node" in output and "rescue_begun: 1 pod was evicted" in output, output
    assert "would be rescued" not in output and stats_of(output)["waiting"] == 1 and scene.held() == [node]

    code, output = play(scene, tmp_path, "-e", "rescue_wait_timeout=120s", "-e", f"rescue_label_selectors=scene={scene.id}")
    # The pod is not in the result if it was bound before this run began.
    assert code == 0 and stats_of(output)["released"] == 1 and stats_of(output)["rescued"] in (0, 1), output
    assert scene.bound_to(pod) == node and scene.held() == [] and len(scene.evictions()) == 1


def test_a_rescue_is_planned_and_made(scene: Scene, tmp_path: Path) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    hopeless = scene.critical("lost", nodeSelector={"nowhere": "at-all"})

    code, output = play(scene, tmp_path, "--check")
    assert code == 0, output
    assert f"kube-system/{pod}: would be rescued on node {node}" in output
    assert f"kube-system/{hopeless}: no eviction helps" in output
    assert scene.evictions() == [] and scene.held() == []
    numbers = stats_of(output)
    assert (numbers["planned"], numbers["impossible"], numbers["victims"], numbers["plan"]) == (1, 1, 1, True), numbers

    code, output = play(scene, tmp_path)
    assert code == 0, output
    assert f"kube-system/{pod}: is on a node" in output and "(failed" not in output
    assert scene.bound_to(pod) == node and scene.held() == []

    numbers = stats_of(output)
    assert (numbers["rescued"], numbers["impossible"], numbers["failed"], numbers["victims"]) == (1, 1, 0, 1), numbers
    assert numbers["changed"] and numbers["ok"] and not numbers["plan"]


def test_the_tag_check_and_mistakes_change_nothing(scene: Scene, tmp_path: Path) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    hopeless = scene.critical("lost", nodeSelector={"nowhere": "at-all"})
    code, output = play(scene, tmp_path, "--tags", "check", result_format="yaml")
    assert code == 0 and f"\n        kube-system/{pod}: would be rescued on node {node}" in output, output

    (tmp_path / "gone").write_text(json.dumps(UNREACHABLE))
    cases = {
        "hopeless": {"rescue_name": hopeless},
        "gone": {"rescue_kubeconfig": str(tmp_path / "gone")},
        "empty": {"rescue_namespaces": []},
        "wrong": {"rescue_graceperiod": 5, "rescue_max_attempts": 0},
    }
    common = {"rescue_kubeconfig": str(scene.cluster.kubeconfig), "rescue_settle_time": 0}
    run = play_cases(PLAYBOOK, {case: common | variables for case, variables in cases.items()}, folder=tmp_path)
    assert f"Pod kube-system/{hopeless}: impossible: " in run.failure("hopeless"), run.output
    assert not stats_of(run.output, "gone")["ok"] and "port=1" in stats_of(run.output, "gone")["error"], run.output
    assert "namespaces is empty" in run.failure("empty") and not stats_of(run.output, "empty")["ok"], run.output
    assert "There is no variable rescue_graceperiod; the nearest is rescue_grace_period." in run.failure("wrong"), run.output
    assert "rescue_max_attempts is 0: " in run.failure("wrong"), run.output
    assert scene.evictions() == [] and scene.held() == []
