# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Answers of Prometheus that cannot be used are problems of one refresh, with a sentence, and never an exception."""

from __future__ import annotations

import time
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Gauge, Rate
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.node_objects import NodeIdentity
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.prometheus import PrometheusSource
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import BasicAuth, PrometheusSettings
from ansible_collections.onprem.kube_scheduling.services.extender.sources.view import Readings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.sources import prometheus_server as faults
from tests.unit.services.extender.sources.cluster_nodes import nodes_of
from tests.unit.services.extender.sources.prometheus_server import Server

RECEIVED, SPEED = Rate("received", 60), Gauge("speed")
NODES = nodes_of(NodeIdentity("a"))


def read(server: Server, **changes: t.Any) -> Readings:
    source = PrometheusSource(PrometheusSettings((server.url,), **{"timeout_s": 5.0, **changes}))
    return source.read([RECEIVED, SPEED], NODES)


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (faults.status(500), "answers with the status 500"),
        (faults.status(404), "answers with the status 404: check that it is the URL"),
        (faults.status(401), "rejects the credentials (status 401)"),
        (faults.html, "returns an HTML page"),
        (faults.garbage, "is not JSON of Prometheus"),
        (faults.of_type("matrix", []), "is of the type matrix: a vector is expected"),
        (faults.of_type("scalar", [1, "1"]), "is of the type scalar"),
        (faults.of_type("vector", [{"metric": {"instance": 5}, "value": [1, "1"]}]), "Expected `str`, got `int`"),
        (faults.of_type("vector", [{"metric": {}, "value": [1]}]), "cannot be decoded"),
        (faults.refused_query, "parse error: unexpected end of input"),
        (faults.large, "has more than 1000000 bytes"),
    ],
)
def test_an_answer_that_cannot_be_used_is_a_problem_of_each_query(server: Server, fault: t.Any, text: str) -> None:
    server.fault = fault
    readings = read(server, max_answer_bytes=1_000_000)
    assert readings.values == {} and len(readings.problems) == 2
    assert all(text in problem for problem in readings.problems), readings.problems


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (faults.truncated, "no answer from"),
        *((fault, "the whole answer must arrive within timeout_s") for fault in (faults.silent, *faults.DRIPPING.values())),
    ],
    ids=["truncated", "silent", *faults.DRIPPING],
)
def test_without_an_answer_the_other_queries_are_not_asked(server: Server, fault: t.Any, text: str) -> None:
    server.fault = fault
    begun_s = time.monotonic()
    readings = read(server, timeout_s=0.3)
    assert len(readings.problems) == 1 and text in readings.problems[0], readings.problems
    assert len(server.asked) == 1
    assert time.monotonic() - begun_s < 30


def test_a_server_that_is_down_is_named(server: Server) -> None:
    server.stop()
    (problem,) = read(server).problems
    assert server.url in problem and "Connection refused; check the address" in problem


@pytest.mark.parametrize(
    ("login", "setting"),
    [
        ({"bearer_token_file": "/missing/file"}, "bearer_token_file"),
        ({"basic_auth": BasicAuth("me", "/missing/file")}, "basic_auth.password_file"),
    ],
)
def test_a_missing_file_of_a_login_is_named_with_its_setting(server: Server, login: dict[str, t.Any], setting: str) -> None:
    (problem,) = PrometheusSource(PrometheusSettings((server.url,), **login)).read([RECEIVED], NODES).problems
    assert problem == f"no request was sent to {server.url}: {setting}: the file /missing/file cannot be read: No such file or directory"
    assert not server.asked


def test_a_native_histogram_is_ignored(server: Server) -> None:
    server.fault = faults.of_type("vector", [{"metric": {"instance": "a"}, "histogram": [1, {"count": "1"}]}])
    readings = read(server)
    assert readings.values == {RECEIVED: {}, SPEED: {}} and not readings.problems


def test_the_connection_can_be_used_after_each_fault(server: Server) -> None:
    source = PrometheusSource(PrometheusSettings((server.url,), timeout_s=5.0, max_answer_bytes=1_000_000))
    for fault in (faults.html, faults.large, faults.truncated, faults.status(429)):
        server.fault = fault
        assert source.read([RECEIVED], NODES).problems
    server.fault = faults.answer_data
    server.put("received", "1", 5, instance="a")
    assert list(source.read([RECEIVED], NODES).values[RECEIVED]) == ["a"]


def test_a_warning_is_passed_on(server: Server) -> None:
    server.warnings = ["results truncated"]
    found: list[str] = []
    PrometheusSource(PrometheusSettings((server.url,)), on_warning=found.append).read([RECEIVED], NODES)
    assert found == ["results truncated"] * 2


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["metric", "value", "instance", "x"]), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(result=JSON, wraps=st.booleans())
def test_any_json_gives_readings(server: Server, result: t.Any, wraps: bool) -> None:
    server.fault = faults.of_type("vector", result) if wraps else (lambda handler: handler.reply_json(200, result))
    readings = read(server)
    assert len(readings.values) + len(readings.problems) >= 2
