# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests that break an API server use no user of system:masters: the check in ``tests/integration/conftest.py`` finds such a user."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import NODES

from lab.cluster import Cluster
from tests.integration.fault_users import FAULTS, Faults
from tests.integration.requests_seen import AGENT
from tests.integration.wire import wire


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """The faults that the check would have recorded. The check itself records none in this test."""
    made = Faults()
    monkeypatch.setattr(FAULTS, "note", made.note)
    return made


def ask(kubeconfig: Path) -> None:
    KubeApi(open_transport(user_agent=f"{AGENT}asks", kubeconfig=str(kubeconfig))).list_all(NODES)


@pytest.mark.parametrize("component", ["kube-apiserver", "etcd"])
def test_a_program_that_asks_a_broken_api_server_as_administrator_is_found(lab_cluster: Cluster, faults: Faults, component: str) -> None:
    ask(lab_cluster.kubeconfig)
    assert faults.administrators_requests() == [], "nothing was broken then"
    lab_cluster.pause(component)
    lab_cluster.resume(component)
    ask(lab_cluster.service_account("asks"))
    lab_cluster.kubectl("get", "nodes")
    assert faults.administrators_requests() == [], "the lab's own programs may be administrators"
    ask(lab_cluster.kubeconfig)
    assert f"{AGENT}asks: list nodes" in faults.administrators_requests()
    faults.begin(Path("another.py"))
    assert faults.administrators_requests() == [], "faults of one module do not concern the next one"


def test_a_program_whose_answers_are_lost_as_administrator_is_found(lab_cluster: Cluster, faults: Faults, tmp_path: Path) -> None:
    for user, is_found in ((lab_cluster.service_account("asks"), False), (lab_cluster.kubeconfig, True)):
        with wire(lab_cluster, tmp_path, user=user) as (_line, kubeconfig):
            ask(kubeconfig)
        assert bool(faults.administrators_requests()) == is_found
