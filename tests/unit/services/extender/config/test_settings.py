# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings come from FILE, variables and flags. Each wrong one is named with its place and the values that can be used."""

from __future__ import annotations

import io
import typing as t
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.addresses import Address
from ansible_collections.onprem.kube_scheduling.services.common.log import Log, set_up_log
from ansible_collections.onprem.kube_scheduling.services.common.typed_settings import SettingsError
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import load_agent
from ansible_collections.onprem.kube_scheduling.services.extender.config.settings import Settings, read_inputs, read_settings
from ansible_collections.onprem.kube_scheduling.services.extender.config.watch import ConfigWatch
from ansible_collections.onprem.kube_scheduling.services.extender.http.tls import TlsFiles
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Gauge
from ansible_collections.onprem.kube_scheduling.services.extender.metrics import Metrics
from ansible_collections.onprem.kube_scheduling.services.extender.reload_faults import FILE_FAULT, ReloadFaults

PROFILES = "profiles:\n  quiet:\n    agents:\n    - {name: template}\n"


def write(folder: Path, text: str) -> Path:
    file = folder / "extender.yaml"
    file.write_text(text)
    return file


def read(folder: Path, text: str = PROFILES, *flags: str, **environment: str) -> Settings:
    return read_settings(read_inputs([f"--config={write(folder, text)}", *flags], environment))


def test_the_smallest_file(tmp_path: Path) -> None:
    settings = read(tmp_path)
    assert (settings.listen, settings.status_address, settings.server.tls) == (Address("0.0.0.0", 8080), None, None)
    assert (settings.log_level, settings.log_format, settings.notes, settings.refused) == ("info", "json", (), ())
    agent = settings.profiles["quiet"].agents[0]
    assert (agent.name, agent.weight, agent.filters, settings.profiles["quiet"].unknown) == ("template", 1.0, False, "median")


def test_a_file_with_every_setting(tmp_path: Path) -> None:
    text = """
listen: 127.0.0.1:9000
status_address: ":9001"
log_level: WARNING
log_format: text
server:
  tls: {cert_file: a.crt, key_file: a.key, client_ca_file: ca.crt}
  max_body_bytes: 1048576
  request_timeout_s: 5s
sources:
  prometheus: {urls: ["http://127.0.0.1:9090"]}
profiles:
  quiet:
    unknown: low
    agents:
    - {name: network_traffic, weight: 2.5, filter: true, args: {max_utilisation: 0.8}}
    - {name: budgets}
  "*":
    agents: [{name: template}, {name: template}]
"""
    settings = read(tmp_path, text)
    assert (settings.listen, settings.status_address) == (Address("127.0.0.1", 9000), Address("", 9001))
    assert (settings.log_level, settings.log_format) == ("warning", "text")
    assert settings.server.tls == TlsFiles("a.crt", "a.key", "ca.crt")
    assert (settings.server.max_body_bytes, settings.server.request_timeout_s) == (1048576, 5.0)
    assert settings.sources.prometheus is not None
    quiet, any_scheduler = settings.profiles["quiet"], settings.profiles["*"]
    assert [(one.name, one.weight, one.filters) for one in quiet.agents] == [("network_traffic", 2.5, True), ("budgets", 1.0, False)]
    assert (quiet.unknown, [one.name for one in any_scheduler.agents]) == ("low", ["template-1", "template-2"])


def test_variables_override_the_file_those_of_the_original_override_them_and_flags_override_all(tmp_path: Path) -> None:
    text = f"listen: 127.0.0.1:1\nlog_level: error\n{PROFILES}"
    assert read(tmp_path, text).listen == Address("127.0.0.1", 1)
    own = {"EXTENDER_LISTEN": "127.0.0.2:2", "EXTENDER_LOG_LEVEL": "Debug"}
    assert (read(tmp_path, text, **own).listen, read(tmp_path, text, **own).log_level) == (Address("127.0.0.2", 2), "debug")
    original = {**own, "HTTP_PORT": "3", "LOG_LEVEL": "Warning"}
    assert (read(tmp_path, text, **original).listen, read(tmp_path, text, **original).log_level) == (Address("127.0.0.2", 3), "warning")
    found = read(tmp_path, text, "--listen=[::1]:4", "--log-level=INFO", **original, HTTP_HOST="10.0.0.1")
    assert (found.listen, found.log_level) == (Address("::1", 4), "info")


@pytest.mark.parametrize(
    ("level", "wanted"), [("TRACE", "debug"), ("alert", "error"), ("Info", "info"), ("ERROR", "error"), ("", "info"), ("loud", "info")]
)
def test_levels_of_the_original(tmp_path: Path, level: str, wanted: str) -> None:
    settings = read(tmp_path, LOG_LEVEL=level)
    assert settings.log_level == wanted
    assert bool(settings.notes) == (level == "loud")


def test_the_variable_of_a_service_called_http_is_explained(tmp_path: Path) -> None:
    settings = read(tmp_path, HTTP_PORT="tcp://10.96.0.7:80", HTTP_SERVICE_HOST="10.96.0.7", EXTENDER_PORT="tcp://10.96.0.8:80")
    assert settings.listen == Address("0.0.0.0", 8080)
    assert "a Service named http" in settings.notes[0] and "enableServiceLinks: false" in settings.notes[0]


PROMETHEUS = "sources: {prometheus: {urls: ['http://127.0.0.1:9090']}}\n"
ORIGINAL = (
    PROMETHEUS + "profiles:\n  a: {agents: [{name: safe_overload, args: {utilisation: 50}}]}\n  b: {agents: [{name: safe_balance}]}\n"
)


def test_variables_of_the_original_apply_to_the_agents_of_every_profile(tmp_path: Path) -> None:
    settings = read(tmp_path, ORIGINAL, SAFEUTILIZATION="80", SAFEPERCENTILE=" 20 ", SAFEFORECASTWEIGHT="101")
    args = [settings.profiles[name].agents[0].agent.args for name in ("a", "b")]
    assert [(each.utilisation, each.percentile, each.forecast_weight) for each in args] == [(80, 20, 20)] * 2
    assert settings.notes == ("variable SAFEFORECASTWEIGHT is '101' and is ignored: it must be a whole number from 0 to 100",)


def test_the_variable_for_the_table_of_the_original_is_noted(tmp_path: Path) -> None:
    assert read(tmp_path, SAFEPRINTTABLE="true").notes == ("variable SAFEPRINTTABLE is 'true' and is ignored: /explain has the table",)


def test_variables_for_agents_that_no_profile_has_are_noted(tmp_path: Path) -> None:
    assert "the agents congestion are ignored" in read(tmp_path, CONGESTION_FACTOR_MAX="10").notes[0]


@pytest.mark.parametrize(
    ("name", "args", "reason"),
    [
        ("network_traffic", "", "max_utilisation is not set"),
        ("network_traffic", "max_utilisation: 0.9", ""),
        ("metric", "query: load, best: 0, worst: 9", "neither reject_above nor reject_below is set"),
        ("metric", "query: load, best: 0, worst: 9, reject_below: 0", ""),
        ("safe_overload", "percentile: 100", "percentile is 100"),
        ("safe_overload", "percentile: 100, memory: {percentile: 10}", ""),
        ("safe_overload", "", ""),
    ],
)
def test_a_filter_that_rejects_no_node_is_noted_with_its_line(tmp_path: Path, name: str, args: str, reason: str) -> None:
    text = f"profiles:\n  quiet:\n    agents:\n    - name: {name}\n      filter: true\n      args: {{{args}}}\n{PROMETHEUS}"
    file = tmp_path / "extender.yaml"
    noted = f"file {file}, line 5, profiles.quiet.agents[0].filter is true, and rejects no node: {reason}"
    notes = read(tmp_path, text).notes
    assert len(notes) == bool(reason) and all(note.startswith(noted) for note in notes), notes
    assert read(tmp_path, text.replace("true", "false")).notes == ()


NEEDS = [
    (
        "network_traffic",
        "",
        "the agent network_traffic needs sources.prometheus or sources.node_exporter: add sources.prometheus with the URL",
    ),
    ("network_traffic", "kubernetes: {}", "the agent network_traffic needs sources.prometheus or sources.node_exporter: add"),
    ("network_traffic", "kubernetes: {}, node_exporter: {}", ""),
    ("metric, args: {query: up, best: 1, worst: 0}", "kubernetes: {}", "the agent metric needs sources.prometheus: add"),
    (
        "metric, args: {query: up, best: 1, worst: 0}",
        "kubernetes: {}, node_exporter: {}",
        "the agent metric needs sources.prometheus, .*: replace sources.node_exporter by",
    ),
    ("safe_overload", "kubernetes: {}", "the agent safe_overload needs sources.prometheus: add"),
    ("safe_overload, args: {source: annotations}", "kubernetes: {}", ""),
    ("congestion", "kubernetes: {}", ""),
    ("congestion, args: {query: load}", "kubernetes: {}", "the agent congestion needs sources.prometheus: add"),
    ("pigeon", "kubernetes: {}", ""),
    ("reward", "kubernetes: {}", ""),
    ("budgets", "", ""),
]


@pytest.mark.parametrize(("agent", "sources", "reason"), NEEDS)
def test_an_agent_that_needs_prometheus_is_refused_without_it(tmp_path: Path, agent: str, sources: str, reason: str) -> None:
    text = f"sources: {{{sources}}}\nprofiles:\n  quiet:\n    agents:\n    - {{name: {agent}}}\n"
    if not reason:
        assert read(tmp_path, text).refused == ()
        return
    with pytest.raises(SettingsError, match=r"line 5, profiles.quiet.agents\[0\].name: " + reason):
        read(tmp_path, text)


@pytest.mark.parametrize("value", ["{}", ""])
def test_a_prometheus_without_urls_is_refused_once(tmp_path: Path, value: str) -> None:
    text = PROFILES.replace("template", "network_traffic") + f"sources:\n  prometheus: {value}\n"
    with pytest.raises(SettingsError) as raised:
        read(tmp_path, text)
    (found,) = map(str, raised.value.errors)
    assert found.startswith(f"file {tmp_path}/extender.yaml, line 6, sources.prometheus.urls is missing: ")
    assert found.endswith('such as urls: ["http://127.0.0.1:9090"]')


def test_the_file_of_pigeon_lies_beside_the_settings(tmp_path: Path) -> None:
    (tmp_path / "pigeon.cfg").write_text("policyResourceIndex=0\npolicyObjective=SPREAD\ncolour=red\n")
    notes = read(tmp_path).notes
    assert any("colour" in note for note in notes) and any("'SPREAD'" in note for note in notes)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("profils: {}\n", r"extender.yaml, line 1, profils is not a setting; the nearest is profiles"),
        ("listen: 8080\n" + PROFILES, r"line 1, listen is 8080: write it as HOST:PORT"),
        ("listen: host\n" + PROFILES, r"line 1, listen is 'host': write it as HOST:PORT"),
        ("log_level: loud\n" + PROFILES, r"line 1, log_level is 'loud': it must be one of debug, info, warning, error"),
        ("profiles:\n", r"line 1, profiles: at least one profile is expected"),
        ("listen: :1\n", r"profiles: at least one profile is expected"),
        ("profiles: [a]\n", r"line 1, profiles is a list: a mapping is expected"),
        ("profiles:\n  quiet: {}\n", r"line 2, profiles.quiet.agents is empty: name at least one"),
        ("profiles:\n  quiet: {agents: []}\n", r"line 2, profiles.quiet.agents is empty: name at least one"),
        ("profiles:\n  quiet:\n    agents:\n    - weight: 1\n", r"line 4, profiles.quiet.agents\[0\].name is missing"),
        ("profiles:\n  1: {agents: [{name: template}]}\n", r"line 2, profiles.1: the key 1 is not a text"),
        (PROFILES + "    unknown: high\n", r"line 5, profiles.quiet.unknown is 'high': it must be one of median, low, filter"),
        (
            PROFILES + "    - {name: template, wieght: 2}\n",
            r"line 5, profiles.quiet.agents\[1\].wieght is not a setting; the nearest is weight",
        ),
        (
            PROFILES + "    - {name: template,\n       weight: 0}\n",
            r"line 6, profiles.quiet.agents\[1\].weight is 0: it must be a number above 0",
        ),
        (PROFILES + "    - {name: budgets, filter: true}\n", r"line 5, profiles.quiet.agents\[1\].filter is true: .*budgets has no filter"),
        (PROFILES + "    - {name: budgets, args: {max: 1}}\n", r"line 5, profiles.quiet.agents\[1\].args.max is not a setting"),
        (PROFILES + "    - {name: budgets, args: [a]}\n", r"args is a list: it must be a mapping"),
        (PROFILES + "server:\n  tls: {cert_file: a}\n", r"line 6, server.tls.key_file is missing"),
        (PROFILES + "server:\n  max_body_bytes: 1k\n", r"line 6, server.max_body_bytes is '1k': it must be a whole number from 65536 to"),
        (PROFILES + "server:\n  timeout: 1\n", r"line 6, server.timeout is not a setting"),
        (
            PROFILES + "sources:\n  prometheus:\n    urls: [ftp://x]\n",
            r"line 7, sources.prometheus.urls.0. is .*: it must be a URL such as",
        ),
        (PROFILES + "sources:\n  promethus: {}\n", r"line 6, sources.promethus is not a setting; the nearest is prometheus"),
        (PROFILES + "sources:\n  prometheus:\n  urls: []\n", r"line 7, sources.urls is not a setting; .*has more spaces before it"),
        (
            PROFILES + "    - {name: template, score: 2}\n",
            r"agents\[1\].score is not a setting; .* belongs below args",
        ),
        (PROFILES + "listen: :1\nlisten: :2\n", r"listen occurs in line 5 and in line 6"),
        ("- a\n", r"is not a mapping: .* NAME: VALUE"),
        ("", r"profiles: at least one profile is expected"),
        ("a: [", r"cannot be read: .* YAML document: line 2, column 1"),
        (
            "profiles: {quiet: {agents: [{name: netwrk_traffic}]}}",
            r"line 1, .*there is no agent netwrk_traffic; the nearest is network_traffic",
        ),
    ],
)
def test_a_wrong_setting_is_named_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("flags", "environment", "complaint"),
    [
        ((), {"EXTENDER_LISTN": ":1"}, "variable EXTENDER_LISTN is not a setting; the nearest is EXTENDER_LISTEN"),
        (("--lisen=:1",), {}, "--lisen is not a flag; the nearest is --listen"),
        (("--listen=x",), {}, "flag --listen is 'x'"),
        ((), {"HTTP_PORT": "http"}, "variable HTTP_PORT is 'http': it must be a whole number from 1 to 65535"),
    ],
)
def test_a_wrong_flag_or_variable_is_named(tmp_path: Path, flags: tuple[str, ...], environment: dict[str, str], complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        read(tmp_path, PROFILES, *flags, **environment)


def test_a_file_is_required() -> None:
    with pytest.raises(SettingsError, match="--config FILE is missing"):
        read_inputs([], {})
    with pytest.raises(SettingsError, match="cannot be read"):
        read_settings(read_inputs(["--config=/does/not/exist"], {}))


def test_an_agent_that_cannot_be_imported_is_refused_by_name_and_the_others_continue(tmp_path: Path) -> None:
    settings = read(tmp_path, PROFILES + "    - {name: missing_agent}\n")
    assert [one.name for one in settings.profiles["quiet"].agents] == ["template"]
    assert "line 5, profiles.quiet.agents[1].name: there is no agent missing_agent" in settings.refused[0]


FAILING = {
    "__init__": (lambda _agent, _args: {}["x"], "agent template cannot be started: KeyError: 'x'"),
    "queries": (property(lambda _agent: 1 // 0), "the queries of the agent template cannot be used: ZeroDivisionError"),
    "ineffective_filter": (property(lambda _agent: 1 // 0), "the filter of the agent template cannot be used: ZeroDivisionError"),
}


@pytest.mark.parametrize("method", FAILING)
def test_an_agent_whose_code_fails_is_refused_by_name_and_the_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    code, complaint = FAILING[method]
    text = PROFILES.replace("template}", "template, filter: true}") + "    - {name: budgets}\n"
    monkeypatch.setattr(load_agent("template"), "can_filter", True)
    before = read(tmp_path, text)
    monkeypatch.setattr(load_agent("template"), method, code)
    settings = read(tmp_path, text)
    assert [one.name for one in settings.profiles["quiet"].agents] == ["budgets"]
    (refused,) = settings.refused
    assert f"line 4, profiles.quiet.agents[0].name: {complaint}" in refused
    if method != "__init__":
        again = read_settings(read_inputs([f"--config={tmp_path / 'extender.yaml'}"], {}), before)
        assert again.refused == settings.refused
    with pytest.raises(SettingsError, match=r"agents\[1\].weight is 0.*agents\[0\].name: "):
        read(tmp_path, text.replace("budgets", "budgets, weight: 0"))


# --- changes while the program runs ---


class Watched:
    def __init__(self, folder: Path) -> None:
        self.file = write(folder, PROFILES)
        self.log_text = io.StringIO()
        self.faults = ReloadFaults()
        inputs = read_inputs([f"--config={self.file}"], {})
        self.metrics = Metrics(self._log())
        self.watch = ConfigWatch(inputs, read_settings(inputs), self.metrics, self.faults, self._log())

    def _log(self) -> Log:
        return set_up_log("extender", form="json", level="info", stream=self.log_text)

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"kube_scheduling_extender_{name}", labels)


def test_a_changed_file_is_taken_over_and_equal_agents_are_kept(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    assert watched.watch.changed() is None
    kept = watched.watch.settings.profiles["quiet"].agents[0].agent
    watched.file.write_text(PROFILES + "    - {name: budgets}\n")
    settings = watched.watch.changed()
    assert settings is not None and len(settings.profiles["quiet"].agents) == 2
    assert settings.profiles["quiet"].agents[0].agent is kept
    assert watched.watch.changed() is None
    assert watched.sample("reloads_total", result="success") == 1


def test_a_broken_file_leaves_the_settings_with_one_line_in_the_log_and_a_metric(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    before = watched.watch.settings
    watched.file.write_text("profiles: {quiet: {agents: 5}}")
    assert watched.watch.changed() is None and watched.watch.changed() is None
    assert watched.watch.settings is before
    assert (watched.sample("configuration_valid"), watched.sample("reloads_total", result="failure")) == (0, 1)
    assert watched.log_text.getvalue().count("the previous settings stay in use") == 1
    (fault,) = watched.faults.current
    assert fault.text == FILE_FAULT
    assert len(fault.errors) == 1 and fault.errors[0].startswith(
        f"file {watched.file}, line 1, profiles.quiet.agents is 5: it must be a list"
    )
    watched.file.unlink()
    assert watched.watch.changed() is None and watched.watch.changed() is None
    assert watched.sample("reloads_total", result="failure") == 2
    (still,) = watched.faults.current
    assert still.errors == (f"file {watched.file} cannot be read: No such file or directory",) and still.since_s == fault.since_s
    watched.file.write_text(PROFILES)
    assert watched.watch.changed() is not None and watched.faults.current == ()
    assert watched.sample("configuration_valid") == 1


def test_a_change_that_needs_a_restart_is_logged(tmp_path: Path) -> None:
    watched = Watched(tmp_path)
    watched.file.write_text(PROFILES + "listen: :9\n")
    assert watched.watch.changed() is not None
    assert "listen has changed in FILE: " in watched.log_text.getvalue() and "after a restart" in watched.log_text.getvalue()
    watched.file.write_text(PROFILES)  # again the value that is in use
    assert watched.watch.changed() is not None
    assert watched.log_text.getvalue().count("listen has changed in FILE") == 1


def test_a_file_that_changes_by_a_link_is_noticed(tmp_path: Path) -> None:
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
    (tmp_path / "v1/extender.yaml").write_text(PROFILES)
    (tmp_path / "v2/extender.yaml").write_text(PROFILES.replace("quiet", "other"))
    link = tmp_path / "data"
    link.symlink_to("v1")
    inputs = read_inputs([f"--config={link}/extender.yaml"], {})
    log = set_up_log("extender", form="json", level="error", stream=io.StringIO())
    watch = ConfigWatch(inputs, read_settings(inputs), Metrics(log), ReloadFaults(), log)
    (tmp_path / "next").symlink_to("v2")
    (tmp_path / "next").rename(link)
    settings = watch.changed()
    assert settings is not None and list(settings.profiles) == ["other"]


@pytest.mark.parametrize(
    ("queries", "complaint"),
    [
        (lambda _agent: 1 // 0, "the queries of the agent template cannot be used: ZeroDivisionError"),
        (lambda _agent: None, "the queries of the agent template cannot be used: TypeError"),
        (lambda _agent: ["up"], "the agent template has the query 'up', which is none of interface.Query"),
        (lambda _agent: [Gauge("up", [])], "the queries of the agent template cannot be used: TypeError"),
    ],
)
def test_an_agent_whose_queries_cannot_be_used_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queries: t.Any, complaint: str
) -> None:
    before = read(tmp_path)
    monkeypatch.setattr(load_agent("template"), "queries", property(queries))
    with pytest.raises(SettingsError, match=rf"line 4, profiles.quiet.agents\[0\].name: {complaint}"):
        read(tmp_path)
    with pytest.raises(SettingsError, match=complaint):
        read_settings(read_inputs([f"--config={tmp_path / 'extender.yaml'}"], {}), before)


def bomb(levels: int) -> str:
    """Settings with lists of lists, each with ten aliases of the one before."""
    lists = [f"  - &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, levels)]
    return "\n".join([PROFILES + "sources:", "  - &a0 [1]", *lists, ""])


def merge_bomb(levels: int) -> str:
    """Settings with mappings that merge ten times the one before."""
    mappings = [f"  a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 10)}]}}" for level in range(1, levels)]
    return "\n".join([PROFILES + "sources:", "  a0: &a0 {key: 1}", *mappings, ""])


@pytest.mark.parametrize("text", [bomb(200), merge_bomb(20), bomb(6), merge_bomb(20).replace("  a19:", "  ? ")])
def test_nested_aliases_are_refused_without_a_calculation_of_all(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match=r"has more than 100000 values|too many levels"):
        read(tmp_path, text)


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_many_levels_do_not_end_the_process(tmp_path: Path, opening: str) -> None:
    with pytest.raises(SettingsError, match="has too many levels"):
        read(tmp_path, opening * 100_000)


@pytest.mark.parametrize("number", ["0x" + "F" * 20_000, "1" + ":1" * 200_000, "1" + ":1" * 200_000 + ".5"])
def test_a_long_number_is_refused_before_it_is_calculated(tmp_path: Path, number: str) -> None:
    with pytest.raises(SettingsError, match="the number in line 5 has more than 10000 characters"):
        read(tmp_path, f"{PROFILES}log_level: {number}\n")


@pytest.mark.parametrize("number", ["0x" + "F" * 5_000, "9" * 5_000, "1" + ":1" * 3_000 + ".5"])
def test_a_number_with_thousands_of_digits_is_an_error_of_the_settings(tmp_path: Path, number: str) -> None:
    with pytest.raises(SettingsError, match=r"line 5, profiles.quiet.agents\[1\].args.factor_max is|cannot be read"):
        read(tmp_path, f"{PROFILES}    - {{name: congestion, args: {{factor_max: {number}}}}}\n")


def test_aliases_and_merge_keys_have_the_lines_of_their_anchors(tmp_path: Path) -> None:
    text = "profiles:\n  a: &common\n    agents: [{name: template}]\n    unknown: high\n  b: *common\n  c:\n    <<: *common\n"
    with pytest.raises(SettingsError) as raised:
        read(tmp_path, text)
    lines = [str(error).removeprefix(f"file {tmp_path}/extender.yaml, ").partition(" is ")[0] for error in raised.value.errors]
    assert lines == [f"line 4, profiles.{name}.unknown" for name in "abc"]


ODD_KEYS = [
    ("'http://admin:hunter2@prom:9090': 1\n", r"line 5, \(a key with :// or @\) is not a setting"),
    ("    - {name: template, 'a b': 2}\n", r"line 5, profiles.quiet.agents\[1\].a b is not a setting"),
    ("  quiet.agents[0]:\n    agents:\n    - {name: template, weight: 0}\n", r"line 7, profiles.quiet.agents\[0\].agents\[0\].weight is 0"),
    (
        "    - name: network_traffic\n      args:\n        devices:\n        - nodes: a\n          device: '('\n",
        r"line 9, .*devices\[0\].device is",
    ),
    (
        "    - name: network_traffic\n      args:\n        devices:\n        - nodes: a\n          device: b\n          x: 1\n",
        "line 10, .*x is",
    ),
    ("    - name: network_traffic\n      args:\n        devices:\n        - nodes: a\n", r"line 8, .*devices\[0\].device is missing"),
    ("    - name: network_traffic\n      args:\n\n        max_age_s: soon\n", "line 8, .*max_age_s is 'soon': it must be a time"),
    (
        "    - name: metric\n      args:\n        query: up\n        best: 1\n        worst: x\n",
        "line 9, .*worst is 'x': it must be a number",
    ),
]


@pytest.mark.parametrize(("text", "complaint"), ODD_KEYS)
def test_the_line_is_found_by_the_path_of_the_setting(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        read(tmp_path, PROFILES + text)


def test_a_key_that_is_given_twice_hides_no_other_error(tmp_path: Path) -> None:
    text = "log_format: xml\nlog_format: text\nlog_level: loud\n" + PROFILES + "    - {name: template, weight: 0, name: template}\n"
    with pytest.raises(SettingsError) as raised:
        read(tmp_path, text)
    found = [str(error).removeprefix(f"file {tmp_path}/extender.yaml, ") for error in raised.value.errors]
    starts = [
        "line 2, log_format occurs in line 1 and in line 2: ",
        "line 3, log_level is 'loud': it must be one of debug, info, warning, error",
        "line 8, profiles.quiet.agents[1].name occurs in line 8 and in line 8: ",
        "line 8, profiles.quiet.agents[1].weight is 0: ",
    ]
    assert all(text.startswith(start) for text, start in zip(sorted(found), starts, strict=True)), found


UNUSABLE = [
    (PROFILES.replace("template}", "template, args: {score: {1: x}}}"), "line 4, .*: the key 1 is not a text"),
    (PROFILES.replace("template}", "template, args: {score: [{null: x}]}}"), "line 4, .*: the key null is not a text"),
    (PROFILES.replace("template}", "template, args: {score: {? [a] : x}}}"), "line 4"),
    (PROFILES + f"sources: {'[' * 5000}{']' * 5000}\n", "cannot be read|too many levels"),
    (PROFILES + "sources: &all {prometheus: *all}\n", "contains itself"),
    (PROFILES + "sources: &all {<<: *all}\n", "contains itself"),
]


@pytest.mark.parametrize(("text", "complaint"), UNUSABLE, ids=["number", "null", "list", "brackets", "cycle", "merge"])
def test_a_file_that_yaml_allows_and_the_settings_do_not_is_refused_once(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        read(tmp_path, text)
    watched = Watched(tmp_path)
    write(tmp_path, text)
    assert watched.watch.changed() is None and watched.watch.changed() is None
    assert watched.sample("reloads_total", result="failure") == 1


def test_an_error_of_the_program_itself_in_file_is_noted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(tmp_path)
    write(tmp_path, PROFILES + "log_level: error\n")

    def fail(*_arguments: object) -> t.NoReturn:
        raise KeyError("x")

    monkeypatch.setattr("ansible_collections.onprem.kube_scheduling.services.extender.config.watch.read_settings", fail)
    assert watched.watch.changed() is None and watched.watch.changed() is None
    assert watched.sample("reloads_total", result="failure") == 1


SECRETS = [
    "sources: {prometheus: 'http://admin:hunter2@prom:9090'}",
    "sources: {prometheus: {urls: ['http://p:9090'], basic_auth: 'admin:hunter2'}}",
    "sources: {prometheus: {urls: ['http://p:9090'], timeout_s: {password: hunter2}}}",
    "sources: {prometheus: {urls: ['http://p:9090'], node_rules: ['http://admin:hunter2@p']}}",
    "sources: {prometheus: {urls: ['http://p:9090'], node_label: 'admin@hunter2'}}",
    "sources: {'http://admin:hunter2@prom:9090': }",
    "'http://admin:hunter2@prom:9090': ",
    "server: {request_timeout_s: 'http://admin:hunter2@prom:9090'}",
    "server: {max_body_bytes: ['hunter2']}",
    "listen: {password: hunter2}",
    "listen: 'http://admin:hunter2@prom:9090'",
    "status_address: [hunter2]",
    "record: {password: hunter2}",
    "log_level: {password: hunter2}",
    "log_level: !!set {hunter2}",
    "log_format: {password: hunter2}",
    "check_config: {password: hunter2}",
    "profiles: {web: {agents: [{name: template, weight: {password: hunter2}}]}}",
    "profiles: {web: {agents: [{name: template, filter: 'a@hunter2'}]}}",
    "profiles: {web: {agents: [{name: 'http://admin:hunter2@prom:9090'}]}}",
    "profiles: {web: {agents: [{name: network_traffic, args: {direction: 'http://admin:hunter2@p'}}]}}",
    "profiles: {web: {agents: [{name: network_traffic, args: {window: 'http://admin:hunter2@p'}}]}}",
]


@pytest.mark.parametrize("text", SECRETS)
def test_an_error_shows_no_value_that_may_contain_a_secret(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError) as raised:
        read(tmp_path, text if text.startswith("profiles") else f"{PROFILES}{text}\n")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize("digits", ["9" * 400, "'" + "9" * 400 + "'", "0x" + "f" * 5000], ids=["decimal", "text", "hexadecimal"])
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("server: {request_timeout_s: %s}", "line 5, server.request_timeout_s is .*: it must be a time from 0.1 to 300 seconds"),
        ("server: {max_body_bytes: %s}", "line 5, server.max_body_bytes is .*: it must be a whole number from "),
        ("    - {name: template, weight: %s}", r"line 5, profiles.quiet.agents\[1\].weight is .*: it must be a number above 0"),
    ],
)
def test_a_very_long_number_is_refused_with_its_line(tmp_path: Path, text: str, complaint: str, digits: str) -> None:
    with pytest.raises(SettingsError, match=complaint) as raised:
        read(tmp_path, f"{PROFILES}{text % digits}\nlog_level: loud\n")
    assert "'loud': it must be one of" in str(raised.value), "the other errors are named too"
    assert len(str(raised.value)) < 600


ALL_WRONG = """
colour: red
5: {6: 7}
listen: 8080
server: {timeout: 1, max_body_bytes: 1k, request_timeout_s: soon, tls: {key: a, cert_file: 5}}
sources:
  promethus: {}
  prometheus: {url: x, urls: [ftp://x, "http://u:p@x"], refresh_s: 0, timeout_s: soon, node_rules: [guess], node_label: 5,
    tls: {ca: x, cert_file: c}, basic_auth: {password: p}}
  kubernetes: {kubeconfig: 1, context: 2}
profiles:
  web:
    unknwon: low
    unknown: high
    agents:
    - {name: budgets, weight: 0, filter: true, score: 1, args: {max: 1}}
    - {name: 5, weight: -1, filter: 2, args: [a]}
    - {weight: 0}
  other: {agents: 5, unknown: high}
"""
WANTED = [
    "the key 5 is not a text", "the key 6 is not a text", "colour is", "listen is",
    "server.timeout is", "server.max_body_bytes is", "server.request_timeout_s is", "server.tls.key is", "server.tls.key_file is",
    "server.tls.cert_file is 5", "sources.promethus is", "sources.prometheus.url is", "sources.prometheus.urls[0] is",
    "prometheus.urls[1] is", "sources.prometheus.refresh_s is", "sources.prometheus.timeout_s is",
    "sources.prometheus.node_rules[0] is", "sources.prometheus.node_label is", "sources.prometheus.tls.ca is",
    "sources.prometheus.tls.key_file is missing", "sources.prometheus.basic_auth.password is",
    "sources.prometheus.basic_auth.username is missing", "sources.prometheus.basic_auth.password_file is missing",
    "sources.kubernetes.kubeconfig is", "sources.kubernetes.context is", "profiles.web.unknwon is", "profiles.web.unknown is",
    "profiles.web.agents[0].weight is", "profiles.web.agents[0].filter is", "profiles.web.agents[0].score is",
    "profiles.web.agents[0].args.max is", "profiles.web.agents[1].name is", "profiles.web.agents[1].weight is",
    "profiles.web.agents[1].filter is", "profiles.web.agents[1].args is", "profiles.web.agents[2].name is missing",
    "profiles.web.agents[2].weight is", "profiles.other.agents is", "profiles.other.unknown is",
]  # fmt: skip


def test_all_errors_of_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as raised:
        read(tmp_path, ALL_WRONG)
    found = list(map(str, raised.value.errors))
    assert not [wanted for wanted in WANTED if not any(wanted in text for text in found)], found
    assert not [text for text in found if ", line " not in text]
    # The unknown key 5 is an error twice: it is no text, and it is no setting.
    assert len(found) == len(set(found)) == len(WANTED) + 1
