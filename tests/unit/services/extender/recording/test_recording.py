# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The replayer reads what the recorder writes, so that an agent gives the same scores to the same requests."""

from __future__ import annotations

import io
import json
import math
import stat
import typing as t
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import (
    Annotation,
    Expression,
    Gauge,
    LabelMatch,
    NodeView,
    PodView,
    Query,
    Rate,
    Series,
)
from ansible_collections.onprem.kube_scheduling.services.extender.recording import replay
from ansible_collections.onprem.kube_scheduling.services.extender.recording.lines import (
    RecordingError,
    decode_line,
    encode_line,
    node_line,
    node_of,
)
from ansible_collections.onprem.kube_scheduling.services.extender.recording.recorder import Recorder
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.pod_tracker import Outcome
from ansible_collections.onprem.kube_scheduling.services.extender.sources.view import ClusterView
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.agents.views import NOW_S, agent, node, pod, series

POD = {
    "metadata": {"namespace": "shop", "name": "web-1", "uid": "u1", "labels": {"app": "web"}},
    "spec": {"schedulerName": "network-traffic", "containers": [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]},
}


class Notes:
    """A log, and a listener that keeps what it received."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.received: list[t.Any] = []

    def warning(self, message: str, **_fields: t.Any) -> None:
        self.warnings.append(message)

    def on_view(self, view: ClusterView) -> None:
        self.received.append(view)

    def on_node(self, node: NodeView) -> None:
        self.received.append(node)

    def on_outcome(self, outcome: Outcome) -> None:
        self.received.append(outcome)


def recorder(file: Path, notes: Notes, **options: t.Any) -> Recorder:
    log: t.Any = notes
    return Recorder(file, notes, log, clock=lambda: NOW_S, **options)


def traffic(name: str, rate: float, *pods: PodView) -> NodeView:
    """A node with traffic on eth0, which has 1 Gbit/s."""
    query, speed, *_properties = agent("network_traffic").queries
    return node(name, {query: [series(rate, device="eth0")], speed: [series(125e6, device="eth0")]}, pods=pods)


def view(*nodes: NodeView, version: int = 1) -> ClusterView:
    return ClusterView(version, {one.name: one for one in nodes})


def request(*names: str) -> bytes:
    return json.dumps({"Pod": POD, "NodeNames": names}).encode()


def replayed(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    return replay.main(arguments, out), out.getvalue()


def test_a_recorded_request_has_the_scores_of_the_recorded_view(tmp_path: Path) -> None:
    file, notes = tmp_path / "r.jsonl", Notes()
    of = recorder(file, notes)
    of.on_view(view(traffic("idle", 0.0), traffic("fifth", 25e6)))
    of.record("/scheduler/prioritize", request("idle", "fifth", "other"))
    of.on_node(traffic("idle", 0.0, pod(ingress=200_000_000, bound_s_ago=1)))
    of.record("/scheduler/prioritize", request("idle"))
    of.on_view(view(traffic("idle", 125e6), version=2))
    of.record("/scheduler/filter", request("idle", "fifth"))
    of.close()
    code, text = replayed("--agent", "network_traffic", "--requests", str(file))
    assert code == 0
    assert text.splitlines() == [
        "/scheduler/prioritize for Pod shop/web-1 at 10000.0 s",
        "  idle    10.000  0% of 1 Gbit/s on eth0, receive; the score is 0 at 50%",
        "  fifth    6.000  20% of 1 Gbit/s on eth0, receive; the score is 0 at 50%",
        "  other  unknown  the node is not in the view",
        "/scheduler/prioritize for Pod shop/web-1 at 10000.0 s",
        "  idle    6.000  20% of 1 Gbit/s on eth0, receive, of which 200 Mbit/s for new pods; the score is 0 at 50%",
        "/scheduler/filter for Pod shop/web-1 at 10000.0 s",
        "  idle     0.000  100% of 1 Gbit/s on eth0, receive; the score is 0 at 100%",
        "  fifth  unknown  the node is not in the view",
    ]
    assert len(notes.received) == 3 and not notes.warnings
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_an_agent_that_depends_on_the_pod_gets_its_demand_and_one_that_learns_the_outcomes(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    of = recorder(file, Notes())
    of.on_view(view(node("a", allocatable={"cpu": 1000, "memory": 2**30}), node("b", allocatable={"cpu": 400, "memory": 2**30})))
    of.on_outcome(Outcome(replace(pod(labels={"app": "web"}), namespace="shop"), "a", False, NOW_S))
    of.record("/scheduler/prioritize", request("a", "b"))
    of.close()
    _code, text = replayed("--agent", "pigeon", "--requests", str(file))
    assert "  b    0.000  the requests do not fit" in text
    _code, text = replayed("--agent", "reward", "--args", "{exploration: 0}", "--requests", str(file), "--json")
    found = json.loads(text)
    assert found["pod"] == "shop/web-1" and found["judgements"]["a"]["score"] == pytest.approx(9.0)


def test_a_request_about_preemption_shows_the_reasons(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    of = recorder(file, Notes())
    victims = {"a": {"Pods": [{"UID": "x"}], "NumPDBViolations": 1}, "b": {"Pods": [{"UID": "y"}], "NumPDBViolations": 0}}
    of.record("/scheduler/preempt", json.dumps({"Pod": POD, "NodeNameToMetaVictims": victims}).encode())
    of.close()
    _code, text = replayed("--agent", "budgets", "--requests", str(file))
    assert "  a  preemption would delete 1 pods and violate" in text and "  b  allowed" in text
    _code, text = replayed("--agent", "template", "--requests", str(file))
    assert "  a  allowed" in text


def test_a_view_can_be_written_by_hand(tmp_path: Path) -> None:
    view_file, requests = tmp_path / "view.jsonl", tmp_path / "requests.jsonl"
    view_file.write_text(
        '{"kind": "node", "at_s": 0, "name": "a", "series": [{"query": ["annotation", "congestion-factor"], "value": 30}]}\n'
    )
    requests.write_text('\n{"kind": "request", "at_s": 1, "path": "/scheduler/prioritize", "body": ' + request("a").decode() + "}\n")
    code, text = replayed("--agent", "congestion", "--view", str(view_file), "--requests", str(requests))
    assert code == 0 and "  a    7.000  factor 30 of 100" in text


@pytest.mark.parametrize(
    ("arguments", "line", "error"),
    [
        (["--agent", "network"], "", "there is no agent network"),
        (["--agent", "metric"], "", "agent metric, args: query is missing"),
        (["--agent", "template", "--args", "[1]"], "", "arguments by their names are expected"),
        (["--agent", "template", "--args", "{"], "", "--args cannot be read"),
        (["--agent", "template"], "{}", "r.jsonl, line 1: Object missing required field `kind`"),
        (["--agent", "template"], "no JSON", "r.jsonl, line 1: JSON is malformed"),
        (
            ["--agent", "template"],
            '{"kind": "node", "at_s": 0, "name": "a", "series": [{"query": ["x"], "value": 1}]}',
            "a query begins with",
        ),
        (
            ["--agent", "template"],
            '{"kind": "node", "at_s": 0, "name": "a", "series": [{"query": ["rate"], "value": 1}]}',
            "cannot be read",
        ),
        (
            ["--agent", "template"],
            '{"kind": "request", "at_s": 1, "path": "/scheduler/filter", "body": {}}',
            "the request at 1.0 s cannot be",
        ),
    ],
)
def test_what_cannot_be_used_ends_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], line: str, error: str
) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text(line + "\n")
    assert replayed(*arguments, "--requests", str(file)) == (2, "")
    assert error in capsys.readouterr().err


def test_a_missing_file_ends_with_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert replayed("--agent", "template", "--requests", str(tmp_path / "none"))[0] == 2
    assert capsys.readouterr().err == f"replay: {tmp_path}/none cannot be read: No such file or directory\n"


def test_a_recording_without_a_request_ends_with_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.jsonl"
    file.write_text('{"kind": "view", "at_s": 1}\n')
    assert replayed("--agent", "template", "--requests", str(file)) == (2, "")
    assert f"{file} has no request of a scheduler" in capsys.readouterr().err


def test_a_body_that_is_not_json_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    of = recorder(file, Notes())
    for body in (b"", b"{", b"\xff", b"[" * 100_000):
        of.record("/scheduler/filter", body)
    of.close()
    assert file.read_bytes() == b""


def test_the_recording_ends_at_its_maximum_and_the_extender_continues(tmp_path: Path) -> None:
    file, notes = tmp_path / "r.jsonl", Notes()
    of = recorder(file, notes, max_bytes=2000)
    for _number in range(30):
        of.record("/scheduler/filter", request("a"))
    of.on_view(view(traffic("a", 1.0)))
    of.close()
    assert 1000 < file.stat().st_size <= 2000 and len(notes.warnings) == 1 and len(notes.received) == 1
    assert all(decode_line(line) for line in file.read_bytes().splitlines())


def test_a_full_disk_ends_the_recording_and_not_the_extender() -> None:
    notes = Notes()
    of = recorder(Path("/dev/full"), notes)
    for _number in range(3):
        of.record("/scheduler/filter", request("a"))
    of.close()
    assert "the file cannot be written" in notes.warnings[0]


QUERIES: st.SearchStrategy[Query] = st.one_of(
    st.builds(Rate, st.text(), st.integers(1, 10_000), st.lists(st.builds(LabelMatch, st.text(), st.text(), st.booleans())).map(tuple)),
    st.builds(Gauge, st.text()),
    st.builds(Expression, st.text(), st.text()),
    st.builds(Annotation, st.text()),
)
SERIES = st.builds(
    Series,
    st.dictionaries(st.text(), st.text(), max_size=2),
    st.floats(allow_nan=False, allow_infinity=False),
    st.none() | st.floats(0, 1e9),
)


@given(st.dictionaries(QUERIES, st.lists(SERIES, min_size=1, max_size=3), max_size=3))
@settings(max_examples=50, deadline=None)
def test_any_node_is_read_as_it_was_written(values: dict[Query, list[Series]]) -> None:
    before = node("n", values, pods=[pod(bound_s_ago=1, ended_s_ago=0, ingress=5)], allocatable={"cpu": 1})
    line = decode_line(encode_line(node_line(before, NOW_S)))
    after = node_of(t.cast(t.Any, line))
    assert (after.name, after.allocatable, list(after.pods)) == (before.name, before.allocatable, list(before.pods))
    assert {query: list(found) for query, found in after.series.items()} == values


def test_a_value_that_is_not_finite_stays_unknown() -> None:
    line = decode_line(encode_line(node_line(node("n", {Gauge("g"): [series(math.inf)]}), NOW_S)))
    assert math.isnan(node_of(t.cast(t.Any, line)).series[Gauge("g")][0].value)


@given(st.binary(max_size=200))
@settings(max_examples=50, deadline=None)
def test_any_bytes_are_a_line_or_an_error(data: bytes) -> None:
    with pytest.raises(RecordingError):
        decode_line(data)


@pytest.mark.parametrize("part", ["\\ud800", "x"])
def test_no_error_of_the_recorder_reaches_a_request_or_keeps_a_node_from_the_engine(tmp_path: Path, part: str) -> None:
    file, notes = tmp_path / "r.jsonl", Notes()
    of = recorder(file, notes)
    of.record("/scheduler/filter", request("a"))
    if part == "x":
        of.on_node(NodeView("a", {"x": "\ud800"}))
    else:
        of.record("/scheduler/filter", b'{"Pod": {}, "NodeNames": ["%b"]}' % part.encode())
    of.record("/scheduler/filter", request("a"))
    of.on_node(node("b"))
    of.on_view(view(node("a")))
    of.on_outcome(Outcome(pod(), "a", True, NOW_S))
    of.close()
    assert ["the file cannot be written" in warning for warning in notes.warnings] == [True]
    assert [type(one) for one in notes.received][-3:] == [NodeView, ClusterView, Outcome]
    assert len(file.read_bytes().splitlines()) == 1


def test_a_recording_that_is_being_written_is_not_emptied(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    of = recorder(file, Notes())
    of.record("/scheduler/prioritize", request("a"))
    with pytest.raises(OSError, match="another process writes the recording"):
        recorder(file, Notes())
    of.close()
    assert '"request"' in file.read_text()
    recorder(file, Notes()).close()
    assert "request" not in file.read_text()


def test_the_file_of_a_recording_is_no_link_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    file, link = tmp_path / "r.jsonl", tmp_path / "link"
    file.write_text("old")
    file.chmod(0o644)
    link.symlink_to(file)
    with pytest.raises(OSError):
        recorder(link, Notes())
    assert file.read_text() == "old"
    recorder(file, Notes()).close()
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == ("", 0o600)
