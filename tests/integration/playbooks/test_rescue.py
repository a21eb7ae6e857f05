# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""rescue.yml against a real control plane: the plan, the rescue, and mistakes in its variables."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.layout import REPOSITORY
from lab.pytest_fixtures import ClusterFactory
from tests.integration.rescue.scene import Scene, priority_classes


@pytest.fixture
def scene(fresh_cluster: ClusterFactory) -> Iterator[Scene]:
    cluster = fresh_cluster("single-worker", flavour="budget_safe")
    cluster.apply(priority_classes())
    yield Scene(cluster)


def play(scene: Scene, folder: Path, *arguments: str) -> tuple[int, str]:
    command = [str(Path(sys.executable).with_name("ansible-playbook")), str(REPOSITORY / "playbooks" / "rescue.yml")]
    command += ["-e", f"rescue_kubeconfig={scene.cluster.kubeconfig}", "-e", "rescue_settle_time=0", *arguments]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("K8S_AUTH_", "KUBE"))}
    environment |= {
        "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "yaml",
        "ANSIBLE_NOCOLOR": "true",
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_plan_rescue_and_mistakes(scene: Scene, tmp_path: Path) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    hopeless = scene.critical("lost", nodeSelector={"nowhere": "at-all"})

    code, output = play(scene, tmp_path, "--check")
    assert code == 0, output
    assert f"kube-system/{pod}: would be rescued on node {node}" in output
    assert f"kube-system/{hopeless}: no eviction helps, or none is allowed" in output
    assert scene.evictions() == [] and scene.held() == []

    code, output = play(scene, tmp_path)
    assert code == 0, output
    assert f"kube-system/{pod}: is on a node" in output and "(failed" not in output
    assert scene.bound_to(pod) == node and scene.held() == []

    code, output = play(scene, tmp_path, "-e", f"rescue_name={hopeless}")
    assert code == 2 and f"Pod kube-system/{hopeless}: impossible: no eviction makes a node fit" in output

    code, output = play(scene, tmp_path, "-e", "rescue_graceperiod=5", "-e", "rescue_max_attempts=0")
    assert code == 2 and "There is no variable rescue_graceperiod. The variables are rescue_allow_bare_pods, " in output
    assert "rescue_max_attempts is 0: it must be a number, at least 1" in output
