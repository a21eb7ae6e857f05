# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A real API server keeps what agents have learned, for a program with the least rights that suffice."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.learned_state import (
    NAME,
    NAMESPACE,
    LearnedState,
)
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.learning import LearningAgent
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Demand, PodView
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import KubernetesSettings

from lab.cluster import Cluster
from tests.integration.workloads import wait_until
from tests.unit.services.extender.agents.views import reward_agent
from tests.unit.services.extender.extender_objects import quiet_log

USER = "extender-state"
CONNECTED_WITHIN_S = 30
ROLE: list[dict[str, t.Any]] = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": USER, "namespace": NAMESPACE},
        "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [NAME], "verbs": ["get", "patch"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "resourceNames": [NAME], "verbs": ["get", "patch"]},
        ],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": USER, "namespace": NAMESPACE},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": USER},
        "subjects": [{"kind": "ServiceAccount", "name": USER, "namespace": "default"}],
    },
]


class Notes:
    """A log that keeps its warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def warning(self, message: str, **_fields: t.Any) -> None:
        self.warnings.append(message)


class Program(t.NamedTuple):
    state: LearnedState
    agent: LearningAgent
    warnings: list[str]

    @property
    def is_writer(self) -> bool:
        return self.state._cluster is not None and self.state._cluster[1].held


@pytest.fixture
def cluster(lab_cluster: Cluster) -> Iterator[Cluster]:
    """The shared cluster without a saved state."""
    yield lab_cluster
    for kind in ("configmap", "lease"):
        lab_cluster.kubectl("delete", kind, NAME, "--namespace", NAMESPACE, "--ignore-not-found")
    lab_cluster.kubectl("delete", "role,rolebinding", USER, "--namespace", NAMESPACE, "--ignore-not-found")


def program(cluster: Cluster) -> Program:
    """A process with its own connection."""
    kubeconfig = cluster.service_account(USER, cluster_role=None)
    notes: t.Any = Notes()
    agent = reward_agent()
    api = KubeApi(open_transport(user_agent="test", kubeconfig=str(kubeconfig)))
    return Program(
        LearnedState(KubernetesSettings(), {"*.reward": agent}, notes, lambda: None, connect=lambda _kubernetes: api),
        agent,
        notes.warnings,
    )


def learn(agent: LearningAgent, nodes: int) -> None:
    pod = PodView("default", "web-1", "u", "s", {"app": "web"}, Demand())
    for number in range(nodes):
        agent.observe(pod, f"node-{number}", False, float(number))


def test_a_state_survives_a_restart_with_the_least_rights(cluster: Cluster) -> None:
    cluster.apply(ROLE)
    first = program(cluster)
    assert first.state.save()
    learn(first.agent, 2000)
    other = program(cluster)
    assert other.state.save() and not other.is_writer
    first.state.stop()
    second = program(cluster)
    assert second.state.save() and second.agent.save() == first.agent.save()
    second.state.stop()
    assert other.state.save() and other.is_writer, "the Lease was released"
    other.state.stop()
    assert first.warnings == second.warnings == other.warnings == []


def test_a_missing_role_is_a_warning_with_a_remedy(cluster: Cluster) -> None:
    on = program(cluster)
    learn(on.agent, 1)
    assert not on.state.save()
    on.state.stop()
    (warning,) = on.warnings
    assert "was not loaded" in warning and f"configmaps {NAME}" in warning.replace('"', "")


def test_another_kubeconfig_while_the_program_runs_loses_nothing(cluster: Cluster, tmp_path: Path) -> None:
    cluster.apply(ROLE)
    kubeconfig = cluster.service_account(USER, cluster_role=None)
    other = tmp_path / "other"
    other.write_text(kubeconfig.read_text())
    agent, errors = reward_agent(), list[str]()
    state = LearnedState(KubernetesSettings(str(kubeconfig)), {"*.reward": agent}, quiet_log(), lambda: errors.append("error"))

    def is_connected() -> bool:
        return state._is_loaded

    state.start()
    wait_until(is_connected, timeout_s=CONNECTED_WITHIN_S, what="the first connection")
    learn(agent, 3)
    state = state.replaced_by(KubernetesSettings(str(other)), {"*.reward": agent})
    learn(agent, 5)
    wait_until(is_connected, timeout_s=CONNECTED_WITHIN_S, what="the second connection")
    state.stop()
    restarted = program(cluster)
    assert restarted.state.save() and restarted.agent.save() == agent.save()
    restarted.state.stop()
    assert errors == restarted.warnings == []
