# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One holder at a time: two programs, a dead one, an API server that is away, and answers that are lost."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ForbiddenError,
    NotFoundError,
    UnreachableError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import NAMESPACES
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_micro_time, parse_time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.common.leader_lease import LeaderLease, LeaseLostError

from lab.cluster import Cluster
from tests.integration.api_servers import kubeconfig_for, second_api_server, shifted_clock
from tests.integration.state import contender
from tests.integration.wire import wire
from tests.integration.workloads import wait_until
from tools.paths import COLLECTIONS, ROOT

DURATION_S = 6
_NUMBERS = itertools.count(1)


@pytest.fixture
def name() -> str:
    return f"rescue-{next(_NUMBERS)}"


def spec_of(cluster: Cluster, namespace: str, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = cluster.get(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")["spec"]
    return spec


def test_it_is_taken_renewed_and_released(cluster: Cluster, api: KubeApi, namespace: str, name: str) -> None:
    lease = LeaderLease(api, "a", name=name, namespace=namespace, duration_s=DURATION_S)
    other = LeaderLease(api, "b", name=name, namespace=namespace, duration_s=DURATION_S)
    assert lease.acquire(0) and lease.acquire(0) and lease.held
    first = spec_of(cluster, namespace, name)
    assert (first["holderIdentity"], first["leaseDurationSeconds"], first["leaseTransitions"]) == ("a", DURATION_S, 0)
    assert not other.acquire(0) and not other.held and other.holder == "a"
    with pytest.raises(LeaseLostError, match="a has it"):
        other.ensure_held()
    time.sleep(DURATION_S + 1)
    lease.ensure_held()
    assert not other.acquire(0)
    renewed = spec_of(cluster, namespace, name)
    assert parse_time(renewed["renewTime"]) > parse_time(first["renewTime"]) + DURATION_S / 3
    assert renewed["acquireTime"] == first["acquireTime"]
    lease.release()
    assert not lease.held and not spec_of(cluster, namespace, name).get("holderIdentity")
    assert other.acquire(0) and other.holder == "b"
    assert spec_of(cluster, namespace, name)["leaseTransitions"] == 1
    other.release()
    with pytest.raises(LeaseLostError):
        other.ensure_held()
    assert not [thread for thread in threading.enumerate() if thread.name == f"lease {name}"]


def test_a_holder_that_is_gone_is_waited_for(cluster: Cluster, api: KubeApi, namespace: str, name: str) -> None:
    lease = LeaderLease(api, "b", name=name, namespace=namespace, duration_s=2)
    assert lease.acquire(0)
    lease.release()
    now = format_micro_time(api.now_s())
    dead = {"holderIdentity": "dead", "leaseDurationSeconds": 3, "renewTime": now, "acquireTime": now}
    cluster.api.merge_patch(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}", {"spec": dead})
    started = time.monotonic()
    assert not lease.acquire(1) and lease.holder == "dead"
    assert lease.acquire(10)
    assert time.monotonic() - started > 2
    lease.release()


def test_a_lease_that_another_client_has_taken_is_lost(cluster: Cluster, api: KubeApi, namespace: str, name: str) -> None:
    lease = LeaderLease(api, "a", name=name, namespace=namespace, duration_s=2)
    assert lease.acquire(0)
    now = format_micro_time(api.now_s())
    thief = {"holderIdentity": "thief", "renewTime": now, "leaseDurationSeconds": 60}
    cluster.api.merge_patch(f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}", {"spec": thief})
    wait_until(lambda: not lease.held)
    assert lease.holder == "thief"
    lease.release()
    assert spec_of(cluster, namespace, name)["holderIdentity"] == "thief"


def test_a_lost_answer_is_not_a_lost_lease(cluster: Cluster, user: Path, namespace: str, name: str, tmp_path: Path) -> None:
    with wire(cluster, tmp_path, user=user) as (line, kubeconfig):
        api = KubeApi(open_transport(user_agent="onprem-rescue-tests", kubeconfig=str(kubeconfig)))
        lease = LeaderLease(api, "a", name=name, namespace=namespace, duration_s=DURATION_S)
        assert lease.acquire(0)
        line.hold()
        assert line.held.wait(DURATION_S)
        line.cut()
        end_s = time.monotonic() + DURATION_S
        while time.monotonic() < end_s:
            lease.ensure_held()
            time.sleep(0.02)
        lease.release()
        assert not spec_of(cluster, namespace, name).get("holderIdentity")


def test_without_an_api_server_it_ends_before_others_may_have_it(cluster: Cluster, api: KubeApi, namespace: str, name: str) -> None:
    lease = LeaderLease(api, "a", name=name, namespace=namespace, duration_s=3)
    assert lease.acquire(0)
    cluster.pause("kube-apiserver")
    paused_s = time.monotonic()
    try:
        last_held_s = asked_s = time.monotonic()
        while lease.held and asked_s - paused_s < 10:
            last_held_s = asked_s  # before the question, so that a pause of this process makes it no later
            time.sleep(0.02)
            asked_s = time.monotonic()
        assert last_held_s - paused_s < 2.3
        with pytest.raises(LeaseLostError):
            lease.ensure_held()
        with pytest.raises(UnreachableError):
            lease.acquire(0.5)
    finally:
        cluster.resume("kube-apiserver")
    assert lease.acquire(10)
    lease.release()


def test_what_help_is_needed_for_ends_immediately(cluster: Cluster, api: KubeApi, name: str) -> None:
    with pytest.raises(NotFoundError):
        LeaderLease(api, "a", name=name, namespace="not-there").acquire(60)
    kubeconfig = cluster.service_account("no-lease", cluster_role=None)
    mere = KubeApi(open_transport(user_agent="onprem-rescue-tests", kubeconfig=str(kubeconfig)))
    with pytest.raises(ForbiddenError, match="leases in namespace kube-system"):
        LeaderLease(mere, "a").acquire(60)


def contend(kubeconfig: Path, namespace: str, file: Path, *, run_s: int) -> subprocess.Popen[bytes]:
    """A process that wants the Lease until its time is over, named as its file."""
    command = [sys.executable, contender.__file__, str(kubeconfig), namespace, file.name, str(DURATION_S), str(run_s), str(file)]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": f"{ROOT}:{COLLECTIONS}"})


@contextlib.contextmanager
def ended(processes: list[subprocess.Popen[bytes]], *, within_s: float) -> Iterator[None]:
    """Wait at the end of the block until each process is done. None is left whatever happens. The block may add processes."""
    try:
        yield
        for process in processes:
            assert process.wait(within_s) == 0
    finally:
        for process in processes:
            process.kill()
            process.wait()


def times_held(files: list[Path]) -> list[tuple[float, float, str]]:
    """Begin, end and holder of every time that it was held, in the order of their beginnings."""
    lines = [(file.name, line) for file in files if file.exists() for line in file.read_text().splitlines()]
    return sorted((*map(float, line.split()), holder) for holder, line in lines)


def assert_one_holder_at_a_time(held: list[tuple[float, float, str]]) -> None:
    for (_begin, end, one), (begin, _end, two) in itertools.pairwise(held):
        assert end < begin, f"{one} held it until {end}, and {two} from {begin} on"


def test_two_processes_never_hold_it_together(cluster: Cluster, user: Path, namespace: str, tmp_path: Path) -> None:
    """The holder is frozen until the other one has taken over, and the API server is away for longer than the Lease lasts."""
    run_s = 35
    files = [tmp_path / identity for identity in ("a", "b")]
    processes = {file.name: contend(user, namespace, file, run_s=run_s) for file in files}
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/kube-scheduling-rescue"

    def holder() -> str:
        return str((cluster.api.find(path) or {"spec": {}})["spec"].get("holderIdentity") or "")

    with ended(list(processes.values()), within_s=run_s + 20):
        wait_until(holder)
        frozen = holder()
        os.kill(processes[frozen].pid, signal.SIGSTOP)
        wait_until(lambda: holder() not in ("", frozen), timeout_s=3 * DURATION_S)
        os.kill(processes[frozen].pid, signal.SIGCONT)
        time.sleep(1)
        cluster.kill("kube-apiserver")
        time.sleep(DURATION_S + 1)
        cluster.start("kube-apiserver")
        back_s = time.monotonic()
    held = times_held(files)
    assert held[-1][1] > back_s, "it was taken again after all that"
    assert_one_holder_at_a_time(held)


def test_a_lease_that_is_deleted_again_and_again_has_one_holder_at_a_time(
    cluster: Cluster, user: Path, namespace: str, tmp_path: Path
) -> None:
    """One of the processes starts after the first deletion, so that it has never seen the Lease of the one that holds it."""
    run_s = 40
    files = [tmp_path / identity for identity in ("a", "b", "late")]
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/kube-scheduling-rescue"
    processes = [contend(user, namespace, file, run_s=run_s) for file in files[:2]]
    with ended(processes, within_s=run_s + 30):
        wait_until(lambda: is_held(cluster, path))
        end_s = time.monotonic() + run_s
        cluster.api.request("DELETE", path)
        processes.append(contend(user, namespace, files[2], run_s=run_s))
        seen = None
        while time.monotonic() < end_s:
            time.sleep(DURATION_S / 2)
            # Not one that is new: a Lease that is deleted before the others have seen it is the case that stays open.
            found = cluster.api.find(path)
            if found is not None and found["metadata"]["uid"] == seen:
                cluster.api.request("DELETE", path)
            seen = found and found["metadata"]["uid"]
    held = times_held(files)
    assert len(held) > 1, "it was held again"
    assert_one_holder_at_a_time(held)


def is_held(cluster: Cluster, path: str) -> bool:
    """The Lease has a holder."""
    return bool((cluster.api.find(path) or {"spec": {}})["spec"].get("holderIdentity"))


@pytest.mark.parametrize(
    "shifts", [pytest.param((0, 20), marks=pytest.mark.full), pytest.param((20, 0), marks=pytest.mark.full), (-20, 20)]
)
def test_clocks_of_api_servers_that_differ_make_no_second_holder(
    cluster: Cluster, namespace: str, tmp_path: Path, shifts: tuple[int, int]
) -> None:
    """Each of two processes has an API server of its own, on one etcd."""
    run_s = 4 * DURATION_S
    user = cluster.service_account("contender")
    files = [tmp_path / f"at{shift:+}" for shift in shifts]
    with contextlib.ExitStack() as stack:
        servers = [cluster.server, stack.enter_context(second_api_server(cluster))]
        processes = []
        for shift, server, file in zip(shifts, servers, files, strict=True):
            proxy = stack.enter_context(shifted_clock(cluster, server, shift))
            kubeconfig = kubeconfig_for(user, proxy, tmp_path / f"{file.name}.kubeconfig")
            seen = KubeApi(open_transport(user_agent="onprem-rescue-tests", kubeconfig=str(kubeconfig)))
            seen.list_all(NAMESPACES)
            assert abs(seen.now_s() - time.time() - shift) < 5, "the clock is not shifted"
            processes.append(contend(kubeconfig, namespace, file, run_s=run_s))
        stack.enter_context(ended(processes, within_s=run_s + 30))  # the last one in, so that the servers outlive the processes
    held = times_held(files)
    assert {holder for _begin, _end, holder in held} == {file.name for file in files}, "both have held it in turn"
    assert_one_holder_at_a_time(held)
