# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The extender as a program: exit codes of the checks, a change of FILE while it runs, and its end."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
import typing as t
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.metric import Metric
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import build_agent
from ansible_collections.onprem.kube_scheduling.services.extender.cli import main
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Gauge, Rate
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.promql import time_text, value_text

from tests.unit.services.extender.extender_objects import names_body, scores_in
from tests.unit.services.extender.sources.prometheus_server import NOW_S, Server
from tools.paths import COLLECTIONS

MODULE = "ansible_collections.onprem.kube_scheduling.services.extender"
FILE = """
listen: 127.0.0.1:0
status_address: 127.0.0.1:0
profiles:
  {name}:
    agents:
    - {{name: template, args: {{score: {score}}}}}
"""


METRIC_PROFILE = """
profiles:
  quiet:
    agents:
    - {name: metric, args: {query: load, best: 0, worst: 10}}
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "extender.yaml"
    file.write_text(text)
    return file


def test_a_configuration_that_can_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, FILE.format(name="quiet", score=7))
    assert main([f"--config={file}", "--check-config"], {"HTTP_PORT": "tcp://10.0.0.1:80"}) == 0
    out, err = capsys.readouterr()
    assert "profile quiet: template (weight 1); unknown nodes: median" in out and "can be used" in out
    assert "note: variable HTTP_PORT" in err


@pytest.mark.parametrize(
    ("agent", "notes"),
    [
        ("{name: template}", []),
        ("{name: pigeon}", ["sources.kubernetes is not configured"]),
        (
            "{name: congestion}",
            [
                "the agent congestion knows no node: the annotation congestion-factor needs sources.kubernetes",
                "sources.kubernetes is not configured",
            ],
        ),
    ],
)
def test_a_source_that_an_agent_needs_is_noted(tmp_path: Path, capsys: pytest.CaptureFixture[str], agent: str, notes: list[str]) -> None:
    file = write(tmp_path, f"profiles: {{quiet: {{agents: [{agent}]}}}}")
    assert main([f"--config={file}", "--check-config"], {}) == 0
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(notes) and all(note in line for note, line in zip(notes, lines, strict=True)), lines


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("profiles: {quiet: {agents: [{name: template}, {name: nothing}]}}", "there is no agent nothing"),
        (
            "profiles: {quiet: {agents: [{name: metric, args: {query: up, best: 1, worst: 0}}]}}",
            "line 1, profiles.quiet.agents[0].name: the agent metric needs sources.prometheus: add sources.prometheus with the URL",
        ),
        ("profiles: {quiet: {}}", "line 1, profiles.quiet.agents is empty: name at least one"),
        (
            "server: {tls: {cert_file: /no, key_file: /no}}\nprofiles: {quiet: {agents: [{name: template}]}}",
            "line 1, server.tls.cert_file: the file /no cannot be read: No such file or directory",
        ),
    ],
)
def test_a_configuration_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, complaint: str) -> None:
    assert main([f"--config={write(tmp_path, text)}", "--check-config"], {}) == 2
    assert complaint in capsys.readouterr().err


MANY_ERRORS = """listen: 8080
log_levl: info
log_format: xml
server: {max_body_bytes: 1}
sources:
  prometheus: {urls: [], tmeout_s: 1, selectr: a}
  node_exporter: {port: 0}
profiles:
  one:
    unknown: high
    agents:
    - {name: network_traffic, args: {direction: up}}
    - {name: template, weight: 0}
  two:
    agents:
    - {name: nothing}
    - {name: budgets, filter: true}
  three: {}
"""


def test_all_errors_of_a_file_are_told_in_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, MANY_ERRORS)
    assert main([f"--config={file}", "--check-config"], {}) == 2
    found = re.findall(rf"^extender: file {re.escape(str(file))}, line (\d+), ([^\s:]+)", capsys.readouterr().err, re.MULTILINE)
    assert sorted((int(line), name) for line, name in found) == [
        (1, "listen"),
        (2, "log_levl"),
        (3, "log_format"),
        (4, "server.max_body_bytes"),
        (6, "sources.prometheus.selectr"),
        (6, "sources.prometheus.tmeout_s"),
        (6, "sources.prometheus.urls"),
        (7, "sources.node_exporter.port"),
        (10, "profiles.one.unknown"),
        (12, "profiles.one.agents[0].args.direction"),
        (13, "profiles.one.agents[1].weight"),
        (16, "profiles.two.agents[0].name"),
        (17, "profiles.two.agents[1].filter"),
        (18, "profiles.three.agents"),
    ]


def test_sources_that_know_no_node_are_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "sources: {prometheus: {urls: ['http://127.0.0.1:1']}}\nprofiles: {quiet: {agents: [{name: network_traffic}]}}"
    assert main([f"--config={write(tmp_path, text)}", "--check-sources", "--log-level=error"], {}) == 2
    err = capsys.readouterr().err
    assert "prometheus: " in err and "the sources know no node" in err


def test_sources_that_are_complete_and_a_node_without_a_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = Server()
    server.vectors["load"] = [({"instance": "a:9100"}, "2.5"), ({"instance": "b:9100"}, "5")]
    text = f"sources: {{prometheus: {{urls: ['{server.url}']}}}}\n" + METRIC_PROFILE
    flags = [f"--config={write(tmp_path, text)}", "--check-sources", "--log-level=error"]
    assert main(flags, {}) == 0
    out = capsys.readouterr().out
    assert 'load {instance="a:9100"} = 2.5, age unknown' in out and "a: metric = 7.50" in out
    server.vectors["load"][1] = ({"instance": "b:9100"}, "NaN")
    server.vectors["other"] = [({"instance": "c:9100"}, "1"), ({"instance": "a:9100"}, "1")]
    write(tmp_path, text + "    - {name: metric, args: {query: other, best: 0, worst: 10}}\n")
    assert main(flags, {}) == 2
    assert "profile quiet, agent metric-1: no fresh value for c" in capsys.readouterr().err
    server.stop()


def test_a_missing_library_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    (tmp_path / "yaml.py").write_text("raise ModuleNotFoundError(\"No module named 'yaml'\", name='yaml')")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{COLLECTIONS}"}
    ended = subprocess.run([sys.executable, "-m", MODULE, "--help"], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and "Traceback" not in ended.stderr
    assert f"the library yaml is not installed for {sys.executable}: run pip install -r requirements.txt" in ended.stderr


def test_an_agent_that_fails_is_named_with_its_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_arguments: object) -> None:
        raise TypeError("an agent cannot add these")

    monkeypatch.setattr(Metric, "judge", failing)
    server = Server()
    server.vectors["load"] = [({"instance": "a:9100"}, "2.5")]
    text = f"sources: {{prometheus: {{urls: ['{server.url}']}}}}\n" + METRIC_PROFILE
    assert main([f"--config={write(tmp_path, text)}", "--check-sources", "--log-level=error"], {}) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "extender: profile quiet, agent metric: it has failed with TypeError: an agent cannot add these"
    server.stop()


def test_a_profile_without_a_value_has_the_number_of_its_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = Server()
    server.vectors["load"] = [({"instance": f"{name}:9100"}, "NaN") for name in "ab"]
    server.vectors["other"] = [({"instance": f"{name}:9100"}, "1") for name in "ab"]
    profile = METRIC_PROFILE + "    - {name: metric, args: {query: other, best: 0, worst: 10}}\n"
    text = f"sources: {{prometheus: {{urls: ['{server.url}']}}}}\n" + profile
    assert main([f"--config={write(tmp_path, text)}", "--check-sources", "--log-level=error"], {}) == 2
    assert re.search("profile quiet, agent metric-1: no fresh value .* 2 nodes", capsys.readouterr().err)
    server.stop()


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        ("{name: network_traffic}", 'there is no series for rate(node_network_receive_bytes_total{job="node"}[300s]), node_network_speed'),
        ("{name: metric, args: {query: load, best: 0, worst: 1}}", "there is no series for load: check that Prometheus scrapes"),
        ("{name: metric, args: {query: total, best: 0, worst: 1}}", "or to several: check node_label"),
        ("{name: metric, args: {query: known, best: 0, worst: 1}}", ""),
    ],
)
def test_an_agent_without_series_is_told_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], agent: str, reason: str
) -> None:
    server = Server()
    server.vectors["total"] = [({}, "1")]
    server.vectors["known"] = [({"instance": "a"}, "1")]
    sources = f"sources: {{prometheus: {{urls: ['{server.url}'], selector: 'job=\"node\"'}}}}\n"
    first = "{name: metric, args: {query: known, best: 0, worst: 1}}"
    file = write(tmp_path, sources + f"profiles:\n  quiet:\n    agents:\n    - {agent}\n  other:\n    agents: [{first}]\n")
    main([f"--config={file}", "--check-sources", "--log-level=error"], {})
    err = capsys.readouterr().err
    server.stop()
    assert reason in err and ("check" in err) == bool(reason)


def test_network_rates_have_one_unit_and_a_missing_label_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = Server()
    speed = "node_network_speed_bytes"
    by_default = build_agent("network_traffic").queries
    received, link, *_properties = by_default
    assert isinstance(received, Rate) and isinstance(link, Gauge)
    labels = {"instance": "a:9100", "device": "eth0"}
    for query, value in ((received, "25000000"), (link, "125000000")):
        server.vectors[value_text(query)] = [(labels, value)]
        server.vectors[time_text(query, "instance")] = [(labels, str(NOW_S))]
    sources = f"sources: {{prometheus: {{urls: ['{server.url}'], node_label: NAME}}}}"
    text = sources + "\nprofiles: {quiet: {agents: [{name: network_traffic}]}}\n"
    assert main([f"--config={write(tmp_path, text.replace('NAME', 'instance'))}", "--check-sources", "--log-level=error"], {}) == 0
    out = capsys.readouterr().out
    assert 'rate node_network_receive_bytes_total {device="eth0", instance="a:9100"} = 200 Mbit/s, ' in out
    assert f'gauge {speed} {{device="eth0", instance="a:9100"}} = 1 Gbit/s, ' in out
    assert "(20% of 1 Gbit/s on eth0" in out
    assert main([f"--config={write(tmp_path, text.replace('NAME', 'kubernetes_node'))}", "--check-sources", "--log-level=error"], {}) == 2
    server.stop()
    wanted = "sources.prometheus.node_label is kubernetes_node, and no series has this label: they have device, instance"
    assert f"extender: prometheus: {wanted}" in capsys.readouterr().err.splitlines()


def test_an_address_that_is_in_use_is_an_error_of_the_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path, FILE.format(name="quiet", score=7))
    with program(file) as running:
        result = subprocess.run(
            [sys.executable, "-m", MODULE, f"--config={file}", f"--listen={running.address}"],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert result.returncode == 2 and "cannot start: " in result.stderr and "in use" in result.stderr
    assert "or set listen" in result.stderr


class Running(t.NamedTuple):
    process: subprocess.Popen[str]
    address: str
    status_address: str


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(COLLECTIONS)}


@contextmanager
def program(file: Path, *flags: str, python: str = sys.executable, env: Mapping[str, str] | None = None) -> Iterator[Running]:
    """The program, from its first log line ``serving`` on."""
    command = [python, "-m", MODULE, f"--config={file}", *flags]
    with subprocess.Popen(command, env=env or environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            lines = (json.loads(line) for line in process.stderr)
            serving = next(line for line in lines if line["message"] == "serving")
            yield Running(process, serving["address"], serving["status_address"])
        finally:
            process.kill()


def ask(address: str, method: str, path: str, body: bytes | None = None) -> bytes:
    connection = http.client.HTTPConnection(address, timeout=10)
    connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
    answer = connection.getresponse().read()
    connection.close()
    return answer


def scores(address: str) -> dict[str, int]:
    return scores_in(ask(address, "POST", "/scheduler/prioritize", names_body(["a"])))


def wait_for(condition: t.Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def test_the_program_serves_takes_over_a_changed_file_and_ends_in_order(tmp_path: Path) -> None:
    file = write(tmp_path, FILE.format(name="other", score=7))
    recording = tmp_path / "recording.jsonl"
    with program(file, f"--record={recording}") as running:
        wait_for(lambda: ask(running.status_address, "GET", "/readyz").startswith(b"ok"))
        assert scores(running.address) == {"a": 0}
        file.write_text("profiles: {quiet: 5}")
        wait_for(lambda: b"extender_configuration_valid 0.0" in ask(running.status_address, "GET", "/metrics"))
        page = ask(running.status_address, "GET", "/status?format=html")
        assert b"<strong>FILE cannot be used: the previous settings stay in use.</strong>" in page
        assert b"line 1, profiles.quiet is 5: it must be a mapping with agents, unknown" in page
        assert scores(running.address) == {"a": 0}
        file.write_text(FILE.format(name="quiet", score=7))
        wait_for(lambda: b"extender_configuration_valid 1.0" in ask(running.status_address, "GET", "/metrics"))
        assert b"FILE cannot be used" not in ask(running.status_address, "GET", "/status?format=html")
        wait_for(lambda: scores(running.address) == {"a": 5})
        assert json.loads(ask(running.address, "GET", "/explain?pod=app/web"))["profile"] == "quiet"
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(20) == 0
    kinds = [json.loads(line)["kind"] for line in recording.read_text().splitlines()]
    assert kinds[:2] == ["view", "request"]
