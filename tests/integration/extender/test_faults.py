# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults of the extender and of its sources, with a real kube-scheduler, extender and Prometheus. Scheduling always continues."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab.second_scheduler import SecondScheduler
from tests.integration.extender.conftest import StartExtender, StartScheduler
from tests.integration.extender.extender_process import Extender, pod_of
from tests.integration.extender.traffic import BUSY, PROFILE, Traffic, settings
from tests.integration.extender.waiting_pods import WaitingPods
from tests.integration.workloads import wait_until

NEUTRAL_WITHIN_S = 30.0
OTHER = "second-profile"


@pytest.fixture(scope="module")
def extender(start_extender: StartExtender, traffic: Traffic, extender_kubeconfig: Path) -> Extender:
    return start_extender(settings(traffic, str(extender_kubeconfig)))


@pytest.fixture(scope="module", autouse=True)
def scheduler(start_scheduler: StartScheduler, extender: Extender) -> SecondScheduler:
    """A scheduler that needs neither the filter nor the scores of its extender."""
    verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 10}
    return start_scheduler(extender, **verbs, ignorable=True, httpTimeout="300ms")


@pytest.fixture
def quiet(traffic: Traffic, extender: Extender) -> Iterator[str]:
    """The only worker without traffic. At the end the extender still works."""
    name = traffic.workers[1]
    traffic.settle(extender, name)
    yield name
    traffic.wait_best(extender, name)


# --- the extender ---------------------------------------------------------------------------------------------------------


def test_scheduling_continues_without_the_extender(extender: Extender, traffic: Traffic, pods: WaitingPods, quiet: str) -> None:
    assert pods.bind(2, PROFILE) == [quiet] * 2
    extender.kill()
    assert all(pods.bind(4, PROFILE))
    extender.start()
    traffic.wait_best(extender, quiet)
    assert pods.bind(2, PROFILE) == [quiet] * 2


def test_scheduling_continues_while_the_extender_hangs(extender: Extender, pods: WaitingPods, quiet: str) -> None:
    extender.send(signal.SIGSTOP)
    try:
        assert all(pods.bind(3, PROFILE))
    finally:
        extender.send(signal.SIGCONT)


def test_the_request_in_flight_is_answered_after_sigterm(
    start_extender: StartExtender, traffic: Traffic, extender_kubeconfig: Path
) -> None:
    extender = start_extender(settings(traffic, str(extender_kubeconfig)))
    body = json.dumps({"Pod": pod_of(PROFILE), "NodeNames": traffic.workers}).encode()
    head = f"POST /scheduler/prioritize HTTP/1.1\r\nHost: extender\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", extender.port), timeout=10) as connection:
        connection.sendall(head.encode() + body[:20])
        time.sleep(0.3)
        extender.send(signal.SIGTERM)
        time.sleep(0.7)
        assert extender.is_running()
        connection.sendall(body[20:])
        answer = b""
        while part := connection.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 200") and all(name.encode() in answer for name in traffic.workers)
    assert extender.process is not None and extender.process.wait(60) == 0


def test_names_that_are_not_known_get_scores(extender: Extender, traffic: Traffic, quiet: str) -> None:
    names = ["nowhere", *traffic.workers, "", "né"]
    scores = extender.scores(names, PROFILE)
    assert list(scores) == names and all(isinstance(score, int) and 0 <= score <= 10 for score in scores.values())
    assert scores["nowhere"] < scores[quiet]
    status, answer = extender.post("filter", {"Pod": pod_of(PROFILE), "NodeNames": names})
    assert status == 200 and sorted([*answer["NodeNames"], *(answer["FailedNodes"] or {})]) == sorted(names)


# --- Prometheus -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["killed", "hangs"])
def test_without_prometheus_all_nodes_become_equal(extender: Extender, traffic: Traffic, pods: WaitingPods, quiet: str, fault: str) -> None:
    if fault == "killed":
        traffic.prometheus.kill()
    else:
        traffic.prometheus.pause()
    try:
        # Equal integers can also come from known values.
        wait_until(lambda: PROFILE in extender.get("/readyz")[1], timeout_s=NEUTRAL_WITHIN_S, what="no known value")
        assert extender.get("/readyz")[0] == 200 and len(set(extender.scores(traffic.workers, PROFILE).values())) == 1
        assert extender.metric("query_errors_total") > 0
        assert all(pods.bind(3, PROFILE))
    finally:
        if fault == "killed":
            traffic.prometheus.start()
        else:
            traffic.prometheus.resume()


def test_a_reset_of_counters_changes_no_score(extender: Extender, traffic: Traffic, quiet: str) -> None:
    """The node_exporters of the quiet node and of a busy one are restarted, so that their counters begin with 0 again."""
    busy = traffic.workers[4]
    for name, receive in ((quiet, 0.0), (busy, BUSY)):
        traffic.remove(name)
        traffic.set(name, receive)
    end_s = time.monotonic() + 4
    while time.monotonic() < end_s:
        scores = extender.scores(traffic.workers, PROFILE)
        assert scores[quiet] > scores[busy], scores
        time.sleep(0.2)


# --- the configuration ----------------------------------------------------------------------------------------------------


def test_a_broken_configuration_changes_nothing(
    start_extender: StartExtender, traffic: Traffic, extender_kubeconfig: Path, quiet: str
) -> None:
    good = settings(traffic, str(extender_kubeconfig))
    extender = start_extender(good)
    traffic.wait_best(extender, quiet)
    for number, text in enumerate(("profiles: [", yaml.safe_dump({**good, "profiles": {PROFILE: {"agents": [{"nam": "x"}]}}}))):
        extender.write(text)
        wait_until(lambda number=number: extender.metric("reloads_total", result="failure") == number + 1, what="the error")
        assert extender.metric("configuration_valid") == 0
        assert extender.scores(traffic.workers, PROFILE)[quiet] == 10
    errors = [line for line in extender.lines if line["level"] in ("warning", "error") and str(extender.file) in json.dumps(line)]
    assert len(errors) >= 2, extender.lines
    extender.configure({**good, "profiles": {OTHER: good["profiles"][PROFILE]}})
    wait_until(lambda: extender.metric("configuration_valid") == 1, what="a good configuration")
    assert extender.scores(traffic.workers, OTHER)[quiet] == 10
    assert is_neutral(extender, traffic)


def test_no_request_fails_during_reloads(start_extender: StartExtender, traffic: Traffic, extender_kubeconfig: Path, quiet: str) -> None:
    good = settings(traffic, str(extender_kubeconfig))
    other = {**good, "profiles": {**good["profiles"], OTHER: good["profiles"][PROFILE]}}
    extender = start_extender(good)
    traffic.wait_best(extender, quiet)
    load = Load(extender, traffic.workers)
    with load:
        for number, wanted in enumerate((other, good, other), 1):
            extender.configure(wanted)
            wait_until(lambda number=number: extender.metric("reloads_total", result="success") == number, what="the reload")
    assert load.wrong == [] and load.answers > 100
    assert load.best == {quiet}


def is_neutral(extender: Extender, traffic: Traffic) -> bool:
    """Return whether all workers have the same score."""
    return len(set(extender.scores(traffic.workers, PROFILE).values())) == 1


class Load:
    """Requests of prioritize from some clients, each over one connection. ``best`` are the nodes with the best score in any answer."""

    def __init__(self, extender: Extender, nodes: list[str], clients: int = 3) -> None:
        self.wrong: list[str] = []
        self.best: set[str] = set()
        self.answers = 0
        self._extender, self._nodes = extender, nodes
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(clients)]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        connection = self._extender.connection()
        body = json.dumps({"Pod": pod_of(PROFILE), "NodeNames": self._nodes})
        while not self._stop.is_set():
            try:
                connection.request("POST", "/scheduler/prioritize", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                scores = {entry["Host"]: entry["Score"] for entry in json.loads(answer.read())}
                self.best |= {name for name, score in scores.items() if score == max(scores.values())}
                self.answers += 1
            except Exception as error:
                self.wrong.append(repr(error))
                return
            time.sleep(0.01)
        connection.close()
