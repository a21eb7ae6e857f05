# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide docs/network-aware-scheduling.md: its tables are complete, its charts show the agents' scores. Its files, and those of
docs/node-exporter.md, can be used.
"""

from __future__ import annotations

import dataclasses
import io
import math
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import fields_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.duration import parse_duration
from ansible_collections.onprem.kube_scheduling.services.common.log import set_up_log
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.paths import ORIGINAL_PATHS
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.pigeon import scores_of_objective
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.variables import IGNORED_VARIABLES, VARIABLES
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import BUILT_IN, build_agent, load_agent
from ansible_collections.onprem.kube_scheduling.services.extender.agents.safe.beta import overload_risk
from ansible_collections.onprem.kube_scheduling.services.extender.cli import main
from ansible_collections.onprem.kube_scheduling.services.extender.config.settings import OPTIONS, ServerSettings, Settings
from ansible_collections.onprem.kube_scheduling.services.extender.engine.explanation import IN_TREE_WEIGHTS, POINTS
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Judgement, NodeView, Series
from ansible_collections.onprem.kube_scheduling.services.extender.metrics import Metrics
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import (
    NODE_RULES,
    KubernetesSettings,
    NodeExporterSettings,
    PrometheusSettings,
)

from tools.paths import ROOT

GUIDE = (ROOT / "docs" / "network-aware-scheduling.md").read_text(encoding="utf-8")
OF_PROMETHEUS = (ROOT / "docs" / "node-exporter.md").read_text(encoding="utf-8")
BLOCKS = [textwrap.dedent(text) for text in re.findall(r"^ *```yaml\n(.*?)^ *```$", GUIDE + OF_PROMETHEUS, re.MULTILINE | re.DOTALL)]
ROW = re.compile(r"^\| (`[^|]*?) \|(.*)\|$", re.MULTILINE)
PALETTE = """%%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "#1f6feb, #d1242f"}}}}%%"""
"""Without these colours of lines the first one is nearly white."""
CHART = re.compile(
    rf"```mermaid\n{re.escape(PALETTE)}\n"
    r'xychart-beta\n +title "(\w+).*?"\n +x-axis ".*?" (\[.*?\])\n +y-axis "score" 0 --> 10\n((?: +line \[.*?\]\n)+)```'
)


def is_file(block: str) -> bool:
    """Return whether a block is a FILE of the extender, and not one of the scheduler or of Kubernetes."""
    content = next(yaml.safe_load_all(block))
    return isinstance(content, dict) and isinstance(content.get("profiles"), dict)


FILES = [block for block in BLOCKS if is_file(block)]


def cells(head: str) -> dict[str, list[str]]:
    """Return the rows of the table below this head line, by the names in their first cell."""
    table = GUIDE[GUIDE.index(head) :].partition("\n\n")[0]
    found = {}
    for first, rest in ROW.findall(table):
        for name in re.findall(r"`([^`]+)`", first):
            found[name] = [cell.strip() for cell in rest.split("|")]
    return found


@pytest.mark.parametrize("number", range(len(FILES)))
def test_a_file_of_the_guide_can_be_used(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    authority = trustme.CA()
    pair = authority.issue_cert("10.0.0.5")
    pair.private_key_pem.write_to_path("server.key")
    pair.cert_chain_pems[0].write_to_path("server.crt")
    authority.cert_pem.write_to_path("ca.crt")
    Path("extender.yaml").write_text(FILES[number])
    assert main(["--config=extender.yaml", "--check-config"], {}) == 0
    output, errors = capsys.readouterr()
    assert "extender.yaml can be used" in output
    # Each file has the sources that its agents need.
    assert errors == ""


def test_each_agent_has_a_file_and_a_section() -> None:
    assert len(FILES) == 14
    used = {agent["name"] for file in FILES for profile in yaml.safe_load(file)["profiles"].values() for agent in profile["agents"]}
    assert used == set(BUILT_IN)
    assert set(cells("| agent | signal |")) == set()
    assert set(re.findall(r"^\| \[(\w+)\]\(#", GUIDE, re.MULTILINE)) == set(BUILT_IN)


@pytest.mark.parametrize("agent", sorted(BUILT_IN))
def test_the_section_of_an_agent_has_formula_source_picture_and_example(agent: str) -> None:
    section = re.search(rf"^### (?:\w+ and )?{agent}\b.*?(?=^##)", GUIDE, re.MULTILINE | re.DOTALL)
    assert section is not None
    text = section[0]
    assert ("violations ≤ `max_violations`" if agent == "budgets" else "score = ") in text
    assert re.search(r"^Source: ", text, re.MULTILINE)
    assert "```mermaid\n" in text
    assert re.search(rf"name: {agent}\b", text)


@pytest.mark.parametrize("agent", sorted(set(BUILT_IN) - {"safe_balance"}))
def test_the_table_of_an_agent_has_its_arguments_and_defaults(agent: str) -> None:
    rows = cells(f"| argument of `{agent}` |")
    fields = {field.encode_name: field for field in fields_of(load_agent(agent).args_type)}
    assert set(rows) == set(fields)
    for name, field in fields.items():
        default, known = rows[name][0], re.findall(r"`([^`]+)`", rows[name][0])
        if field.required:
            assert default == "required"
        elif known:
            assert known == [as_text(field.default)] or parse_duration(known[0]) == field.default, name
        else:
            assert name == "device" or (default == "–" and not isinstance(field.default, (int, float))), name


def as_text(value: Any) -> str:
    """Return a value as the guide writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def test_the_settings_with_a_flag() -> None:
    rows = cells("| name | default | meaning |")
    assert list(rows) == [option.name for option in OPTIONS]
    defaults = {field.name: field.default for field in dataclasses.fields(Settings)}
    for name in ("log_level", "log_format", "check_config", "check_sources"):
        assert rows[name][0] == f"`{as_text(defaults[name])}`"
    assert rows["listen"][0] == f"`{Settings.listen}`" and rows["status_address"][0] == rows["record"][0] == "none"


LOGIN = {"bearer_token_file", "basic_auth", "tls"}
KINDS: dict[str, type] = {
    "sources.prometheus.": PrometheusSettings,
    "sources.kubernetes.": KubernetesSettings,
    # The guide names its login and timeout_s in the row of refresh_s.
    "sources.node_exporter.": NodeExporterSettings,
    "server.": ServerSettings,
}


@pytest.mark.parametrize("prefix", KINDS)
def test_the_settings_that_are_only_in_file(prefix: str) -> None:
    section = GUIDE[GUIDE.index("These settings are only in FILE:") :].partition("\n\n## ")[0]
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.*?) \|", section, re.MULTILINE))
    documented = {name.removeprefix(prefix): default for name, default in rows.items() if name.startswith(prefix)}
    kind = KINDS[prefix]
    fields = {field.name: field.default for field in fields_of(kind)}
    if prefix == "sources.node_exporter.":
        assert "So are `timeout_s`, `bearer_token_file`, `basic_auth` and `tls`." in section
        others = {field.name: field.default for field in fields_of(PrometheusSettings)}
        assert fields.pop("timeout_s") == others["timeout_s"] and fields["refresh_s"] == others["refresh_s"]
        for name in LOGIN:
            fields.pop(name)
    assert set(documented) == set(fields)
    for name, default in documented.items():
        if default.startswith("`"):
            assert default == f"`{as_text(fields[name])}`" or float(default.strip("`")) == fields[name], name


def test_the_rules_the_variables_and_the_paths_of_the_original() -> None:
    assert tuple(cells("| rule | the series")) == NODE_RULES
    assert set(cells("| variable | setting |")) == {"HTTP_HOST", "HTTP_PORT", "LOG_LEVEL", *VARIABLES, *IGNORED_VARIABLES}
    paths = {path: row[0].strip("`") for path, row in cells("| path below `/scheduler/predicates/`").items() if path in ORIGINAL_PATHS}
    assert paths == {name: path.agent for name, path in ORIGINAL_PATHS.items()}


def test_the_table_of_metrics_is_complete() -> None:
    metrics = Metrics(set_up_log("test", form="json", level="info", stream=io.StringIO()))
    families = list(metrics.registry.collect())
    own = [family for family in families if family.name.startswith("kube_scheduling_extender_")]
    assert {family.name.partition("_")[0] for family in families if family not in own} <= {"process", "python"}
    kinds = {f"{family.name}{'_total' if family.type == 'counter' else ''}": family.type for family in own}
    assert {name: row[0] for name, row in cells("| metric | type | meaning |").items()} == kinds


def test_the_weights_of_the_plugins_are_those_that_explain_shows() -> None:
    table = GUIDE[GUIDE.index("| | default weight | most points |") :].partition("\n\n")[0]
    rows = re.findall(r"^\| ([\w, ]+) \| (\d+) \| (\d+) \|$", table, re.MULTILINE)
    weights = {name: int(weight) for names, weight, _points in rows for name in names.split(", ") if not name.startswith("extender")}
    assert weights == IN_TREE_WEIGHTS
    assert all(int(points) == int(weight) * 10 * POINTS for _names, weight, points in rows)


EXTENDER_FIELDS = {
    "urlPrefix",
    "filterVerb",
    "prioritizeVerb",
    "preemptVerb",
    "weight",
    "nodeCacheCapable",
    "ignorable",
    "httpTimeout",
    "enableHTTPS",
    "tlsConfig",
}


def test_the_entries_of_the_scheduler_name_paths_that_exist() -> None:
    entries = [entry for block in BLOCKS if "urlPrefix" in block for entry in yaml.safe_load(block)["extenders"]]
    paths = {"filter", "prioritize", "preempt"} | {f"{kind}/{name}" for kind in ("predicates", "priorities") for name in ORIGINAL_PATHS}
    assert len(entries) == 6
    for entry in entries:
        assert set(entry) <= EXTENDER_FIELDS and entry["urlPrefix"].endswith("/scheduler")
        assert {entry[verb] for verb in ("filterVerb", "prioritizeVerb", "preemptVerb") if verb in entry} <= paths
        # The preemption must not delete pods on a node that the filter rejects.
        assert "filterVerb" not in entry or entry.get("preemptVerb") == "preempt"
        # kube-scheduler refuses a prioritizeVerb without a positive weight.
        assert ("prioritizeVerb" in entry) == (entry.get("weight", 0) > 0)


# --- charts ---

NOW_S = 1000.0


def judged(name: str, args: Mapping[str, Any], value: float) -> float:
    """Return the score of an agent for a node whose first query has this value. The other queries have the value 1."""
    agent = build_agent(name, args)
    series = {query: (Series({"device": "eth0"}, 1.0, NOW_S),) for query in agent.queries}
    series |= {query: (Series({"device": "eth0"}, value, NOW_S),) for query in agent.queries[:1]}
    node = NodeView("n", series=series)
    judgement: Judgement = agent.judge(agent.prepare([node], NOW_S), node, None, NOW_S)
    assert judgement.score is not None
    return judgement.score


def risk_score(percent: float) -> float:
    (risk,) = overload_risk(np.array([percent / 100]), np.array([0.1]), 0.9)
    return 10 * (1 - math.sqrt(min(1.0, float(risk) / 0.3)))


CHARTS: dict[str, tuple[Callable[[float], float], ...]] = {
    "network_traffic": (lambda percent: judged("network_traffic", {}, percent / 100),),
    "safe_overload": (risk_score, lambda percent: 10 * (1 - (percent / 100 + math.sqrt(0.1)) / 2)),
    "metric": (lambda value: judged("metric", {"query": "x", "best": 0.1, "worst": 0.6}, value),),
    "congestion": (lambda value: judged("congestion", {}, value),),
    "pigeon": (lambda share: float(scores_of_objective(np.array([0.0, share, 1.0]), np.full(3, True))[1]),),
    "reward": (lambda failures: 10 * (1 - 0.1) ** failures,),
    "template": (lambda percent: judged("template", {}, percent),),
}


@pytest.mark.parametrize("title", CHARTS)
def test_a_chart_shows_the_scores_of_its_agent(title: str) -> None:
    charts = {name: (yaml.safe_load(axis), lines) for name, axis, lines in CHART.findall(GUIDE)}
    assert set(charts) == set(CHARTS)
    axis, lines = charts[title]
    drawn = [yaml.safe_load(line) for line in re.findall(r"line (\[.*?\])", lines)]
    assert len(drawn) == len(CHARTS[title])
    for points, score in zip(drawn, CHARTS[title], strict=True):
        assert points == [pytest.approx(score(value), abs=0.06) for value in axis]
