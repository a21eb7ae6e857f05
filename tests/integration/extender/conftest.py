# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Extenders, second schedulers that use them, and the traffic of the shared cluster's workers."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from lab.cluster import Cluster
from lab.network_namespaces import NetworkNamespace
from lab.pytest_fixtures import NamespaceFactory
from lab.second_scheduler import SecondScheduler, render, second_scheduler
from lab.traffic_sender import TrafficSender
from tests.integration.extender.extender_process import Extender
from tests.integration.extender.real_machines import real_machines
from tests.integration.extender.traffic import PROFILE, Traffic, running_traffic
from tests.integration.extender.waiting_pods import WaitingPods

Json = dict[str, Any]

READER = "extender-reader"


class StartExtender(Protocol):
    def __call__(self, settings: Json, *, clock_ahead_s: float = 0.0) -> Extender: ...


class Server(Protocol):
    """An extender, or a server in front of one."""

    @property
    def url(self) -> str: ...


Entries = Sequence[tuple[Server, Json]]
"""More extenders, each with the fields of its entry that differ from lab/schedulers/extender.yaml."""


class StartScheduler(Protocol):
    def __call__(
        self, extender: Server, *, profiles: tuple[str, ...] = (PROFILE,), also: Entries = (), **changes: Any
    ) -> SecondScheduler: ...


@pytest.fixture(scope="module")
def start_extender(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartExtender]:
    """Starts extenders, which end after the module. ``clock_ahead_s``: the seconds by which their clock is wrong."""
    started: list[Extender] = []

    def start(settings: Json, *, clock_ahead_s: float = 0.0) -> Extender:
        extender = Extender(tmp_path_factory.mktemp("extender"), settings, clock_ahead_s=clock_ahead_s)
        started.append(extender)
        extender.start()
        return extender

    yield start
    for extender in started:
        extender.kill()


@pytest.fixture(scope="module")
def start_scheduler(lab_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartScheduler]:
    """Starts second schedulers on the shared cluster, which end after the module. ``changes`` are fields of their extender."""
    yield from schedulers(lab_cluster, tmp_path_factory)


def schedulers(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartScheduler]:
    """Return a function that starts second schedulers, and end them afterwards."""
    with contextlib.ExitStack() as running:

        def start(extender: Server, *, profiles: tuple[str, ...] = (PROFILE,), also: Entries = (), **changes: Any) -> SecondScheduler:
            configuration = render("extender", url=extender.url, scheduler_name=profiles[0])
            configuration["profiles"] = [{"schedulerName": name} for name in profiles]
            configuration["extenders"][0] |= changes
            for server, fields in also:
                (entry,) = render("extender", url=server.url, scheduler_name=profiles[0])["extenders"]
                configuration["extenders"].append(entry | fields)
            return running.enter_context(second_scheduler(cluster, configuration, tmp_path_factory.mktemp("scheduler")))

        yield start


@pytest.fixture(scope="module")
def extender_kubeconfig(lab_cluster: Cluster) -> Path:
    """The kubeconfig of a user that may read nodes and pods, which is all that scores need."""
    return reader_kubeconfig(lab_cluster)


def reader_kubeconfig(cluster: Cluster) -> Path:
    """Return the kubeconfig of a user that may read nodes and pods, and nothing else."""
    rule = {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}
    cluster.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": READER}, "rules": [rule]})
    return cluster.service_account("extender", cluster_role=READER)


@pytest.fixture(scope="module")
def traffic(lab_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traffic]:
    """The traffic of the workers, all of which are quiet at first."""
    with running_traffic(lab_cluster, tmp_path_factory.mktemp("prometheus")) as running:
        yield running


@pytest.fixture(scope="module")
def machines() -> Iterator[list[NetworkNamespace]]:
    """Three machines with a network of their own."""
    with real_machines(3) as made:
        yield made


@pytest.fixture(scope="module")
def sender() -> Iterator[TrafficSender]:
    """Sends real packets to the machines."""
    made = TrafficSender()
    yield made
    made.stop()


_NUMBERS = itertools.count(1)


@pytest.fixture
def pods(lab_cluster: Cluster, namespaces: NamespaceFactory) -> WaitingPods:
    """Pods of a namespace of this test."""
    return WaitingPods(lab_cluster, namespaces(f"extender-{next(_NUMBERS)}"))
