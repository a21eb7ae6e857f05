# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""pytest fixtures: shared clusters, own namespaces for each test module, and fresh clusters on request.

A conftest.py imports them by name. LAB_KEEP=1 keeps the shared cluster `lab_cluster` for the next run.
"""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import pytest

from lab.api import ApiClient
from lab.cluster import Cluster, up
from lab.inventory import Inventory
from lab.kwok_config import Variant
from lab.layout import cache_dir
from lab.locks import locked
from lab.processes import started_at
from lab.scenario import Scenario

BASE_SCENARIO = "base"
GONE_WITHIN_S = 60


class SharedCluster:
    """A cluster of the session, which test files use one after the other. Each file removes what it makes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._inventory = Inventory(cluster.api)

    def for_file(self, file: str, failures: Callable[[], int] = lambda: 0) -> Iterator[Cluster]:
        """Yield the cluster. What the file leaves in it is an error of this file, and is not reported again for the next one.

        ``failures`` returns the number of failed tests. A test that fails leaves what it has made: its failure is the error then.
        """
        before = failures()
        yield self._cluster
        changes = self._inventory.restore(timeout_s=GONE_WITHIN_S)
        report = "\n  ".join([f"{file} has not restored cluster {self._cluster.name}, which other files use:", *changes])
        assert not changes or failures() > before, report


class NamespaceFactory(Protocol):
    def __call__(self, prefix: str, *, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None) -> str: ...


class ClusterFactory(Protocol):
    def __call__(
        self,
        scenario: Scenario | Path | str | None = BASE_SCENARIO,
        *,
        variant: Variant | str = "standard",
        prometheus: bool = False,
    ) -> Cluster: ...


@pytest.fixture(scope="session")
def lab_folder() -> Iterator[Path]:
    """Folder for the clusters of this test run; what a killed run has left there is taken down first."""
    base = Path(tempfile.gettempdir()) / f"onprem-lab-{os.getuid()}"
    base.mkdir(mode=0o700, exist_ok=True)
    with locked(base.with_suffix(".lock")):
        _reap(base)
    folder = base / f"{os.getpid()}-{started_at(os.getpid())}"
    folder.mkdir()
    before = signal.signal(signal.SIGTERM, _interrupt)
    yield folder
    signal.signal(signal.SIGTERM, before)
    _take_down(folder)


@pytest.fixture(scope="session")
def session_cluster(lab_folder: Path) -> Iterator[SharedCluster]:
    """The cluster of `lab_cluster`."""
    keep = os.environ.get("LAB_KEEP") == "1"
    folder = cache_dir() / "kept" / "shared" if keep else lab_folder / "shared"
    cluster = up(folder, "shared", scenario=BASE_SCENARIO)
    yield SharedCluster(cluster)
    if not keep:
        cluster.down()


@pytest.fixture(scope="module")
def lab_cluster(session_cluster: SharedCluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The shared cluster: six workers in two zones and three racks, one tainted control-plane node."""
    yield from session_cluster.for_file(request.node.nodeid, lambda: request.session.testsfailed)


@pytest.fixture(scope="session")
def session_cluster_without_preemption(lab_folder: Path) -> Iterator[SharedCluster]:
    """The cluster of `budget_safe_cluster`."""
    cluster = up(lab_folder / "budget-safe", "budget-safe", scenario="single-worker", variant="budget_safe")
    yield SharedCluster(cluster)
    cluster.down()


@pytest.fixture(scope="module")
def budget_safe_cluster(session_cluster_without_preemption: SharedCluster, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A shared cluster with one worker, whose scheduler does not preempt and has a Lease."""
    yield from session_cluster_without_preemption.for_file(request.node.nodeid, lambda: request.session.testsfailed)


@pytest.fixture(scope="module")
def namespaces(lab_cluster: Cluster) -> Iterator[NamespaceFactory]:
    """Makes namespaces with unique names on the shared cluster, and deletes them after the module."""
    api = lab_cluster.api
    created: list[str] = []

    def create(prefix: str, *, annotations: dict[str, str] | None = None, labels: dict[str, str] | None = None) -> str:
        name = f"{prefix}-{secrets.token_hex(3)}"
        metadata = {"name": name, "annotations": annotations or {}, "labels": labels or {}}
        api.post("/api/v1/namespaces", {"metadata": metadata})
        created.append(name)
        lab_cluster.wait_namespace(name)
        return name

    yield create
    for name in created:
        delete_namespace(api, name)


@pytest.fixture
def fresh_cluster(lab_folder: Path) -> Iterator[ClusterFactory]:
    """Brings up a separate cluster, which is taken down after the test."""
    yield from _clusters(lab_folder)


@pytest.fixture(scope="module")
def fresh_module_cluster(lab_folder: Path) -> Iterator[ClusterFactory]:
    """As fresh_cluster, taken down after the module."""
    yield from _clusters(lab_folder)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """A run that is told to end shall take its clusters down, as on Ctrl-C; pytest itself would not."""
    raise KeyboardInterrupt


_NUMBERS = itertools.count(1)


def _clusters(folder: Path) -> Iterator[ClusterFactory]:
    clusters: list[Cluster] = []

    def create(
        scenario: Scenario | Path | str | None = BASE_SCENARIO, *, variant: Variant | str = "standard", prometheus: bool = False
    ) -> Cluster:
        name = f"fresh-{next(_NUMBERS)}"
        cluster = up(folder / name, name, scenario=scenario, variant=variant, prometheus=prometheus)
        clusters.append(cluster)
        return cluster

    yield create
    for cluster in clusters:
        cluster.down()


def delete_namespace(api: ApiClient, name: str) -> None:
    """Delete a namespace; returns when its pods no longer hold capacity on the nodes."""
    # Pods end immediately, so that their grace periods use no capacity in the next module.
    options: dict[str, Any] = {"gracePeriodSeconds": 0}
    pods = f"/api/v1/namespaces/{name}/pods"
    api.request("DELETE", f"/api/v1/namespaces/{name}")
    api.request("DELETE", pods, options)
    deadline_s = time.monotonic() + GONE_WITHIN_S
    while items := api.get(pods)["items"]:
        assert time.monotonic() < deadline_s, f"{len(items)} pods of namespace {name} exist {GONE_WITHIN_S} s after its deletion"
        time.sleep(0.1)


def _reap(base: Path) -> None:
    for folder in base.iterdir():
        pid, _, start = folder.name.partition("-")
        if not (pid.isdigit() and started_at(int(pid)) == start):
            _take_down(folder)


def _take_down(folder: Path) -> None:
    for child in folder.iterdir():
        Cluster.at(child, child.name).down()
    shutil.rmtree(folder, ignore_errors=True)
