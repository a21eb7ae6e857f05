# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Agents are found by name, only the requested ones are imported, and errors name the agent and the argument."""

from __future__ import annotations

import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import (
    BUILT_IN,
    AgentError,
    agent_names,
    build_agent,
    load_agent,
)

from tools.paths import COLLECTIONS

REQUIRED: dict[str, dict[str, t.Any]] = {"metric": {"query": "up", "best": 1, "worst": 0}}

AGENT = """
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import Struct
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Agent, Judgement

class Args(Struct, frozen=True, forbid_unknown_fields=True):
    size: int = 1

class Large(Agent):
    name = "large"
    args_type = Args
    def __init__(self, args):
        if args.size > 9:
            raise {error}("size is too large")
        super().__init__(args)
    def judge(self, prepared, node, pod, now_s):
        return Judgement(5.0)

class Small(Large):
    name = "small"

class NoArgs(Struct, frozen=True, forbid_unknown_fields=True):
    pass

class Bare(Agent):
    name = "bare"
    args_type = NoArgs

class Unnamed(Agent):
    args_type = Args

class WithoutArgs(Agent):
    pass
"""
VALID = AGENT.format(error="ValueError")


@pytest.mark.parametrize("name", BUILT_IN)
def test_each_built_in_agent_can_be_built_with_its_defaults(name: str) -> None:
    of = build_agent(name, REQUIRED.get(name))
    assert of.name == name and load_agent(name) is type(of)


def test_a_module_is_imported_only_if_its_agent_is_requested() -> None:
    program = (
        "import sys; from ansible_collections.onprem.kube_scheduling.services.extender.agents.registry import build_agent;"
        "build_agent('congestion'); print(*sys.modules)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(COLLECTIONS)}, capture_output=True, text=True, check=True
    )
    loaded = {name.rpartition(".")[2] for name in answer.stdout.split() if ".extender.agents." in name}
    assert "congestion" in loaded and not loaded & (set(BUILT_IN) - {"congestion"})
    assert "numpy" not in answer.stdout.split()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("network_trafic", "there is no agent network_trafic; the nearest is network_traffic"),
        ("zzz", "there is no agent zzz; the agents are budgets, .*, template, "),
    ],
)
def test_an_unknown_agent_is_named_with_the_nearest(name: str, text: str) -> None:
    with pytest.raises(AgentError, match=text):
        load_agent(name)


@pytest.mark.parametrize(
    ("name", "args", "text"),
    [
        ("network_traffic", {"windw": "5m"}, "windw is not a setting; the nearest is window"),
        ("template", {"x": 1}, "x is not a setting; the settings are score"),
        ("network_traffic", {"devices": [{"nodes": ".*", "dev": "eth0"}]}, r"devices\[0\].dev is not a setting"),
        ("network_traffic", {"devices": [{"nodes": ".*"}]}, r"devices\[0\].device is missing"),
        ("network_traffic", {"device": "("}, r"device is '\(': it is not a regular expression"),
        ("network_traffic", {"device": "eth(?!9).*"}, r"device is .*: Prometheus has no look-ahead"),
        ("network_traffic", {"device": "eth0", "devices": [{"nodes": "a", "device": "b"}]}, "device and devices cannot be used together"),
        ("network_traffic", {"window": "5 minutes"}, "window is '5 minutes': it must be a time"),
        ("network_traffic", {"window": 0}, "window is 0: it must be a time from 1 to"),
        ("network_traffic", {"direction": "up"}, "direction is 'up': it must be one of receive, transmit, both"),
        ("network_traffic", {"max_utilisation": 80}, "max_utilisation is 80: it must be a number from 0 to 1"),
        ("network_traffic", {"estimate": "10 Mbit"}, "estimate is '10 Mbit': bits per second are expected .* such as 10G.*, or auto"),
        (
            "network_traffic",
            {"speeds": [{"nodes": ".*", "speed": "10Gbit"}]},
            r"speeds\[0\].speed is '10Gbit': bits per second are expected .* k, M, G and T",
        ),
        ("network_traffic", {"speeds": [{"nodes": ".*", "speed": 0}]}, r"speeds\[0\].speed is 0: it is in bits .* at least 1k; 10G is"),
        ("network_traffic", {"speeds": [{"nodes": ".*", "speed": 10}]}, r"speeds\[0\].speed is 10: it is in bits per second"),
        ("network_traffic", {"max_age_s": 0}, "max_age_s is 0: it must be a time from 1"),
        ("metric", {**REQUIRED["metric"], "max_age_s": "1 hour"}, "max_age_s is '1 hour': it must be a time"),
        ("safe_overload", {"utilisation": 0}, "utilisation is 0: it must be a number from 1 to 100"),
        ("safe_overload", {"cpu": {"percentile": 101}}, "cpu.percentile is 101: it must be a number from 0 to 100"),
        ("safe_overload", {"window": 59}, "window is 59: it must be a time from 60"),
        ("safe_balance", {"cpu": {"window": 30}}, "cpu.window is 30: it must be a time from 60"),
        ("safe_overload", {"source": "annotations", "cpu": {"mean_free": "x"}}, "cpu has PromQL .* source is annotations"),
        ("congestion", {"max": 0}, "max is 0: it must be a number above 0"),
        ("pigeon", {"num_resources": 6}, "num_resources is 6: it must be a whole number from 1 to 5"),
        ("pigeon", {"policy_resource_index": 2}, "policy_resource_index is 2: it must be below num_resources, 2"),
        ("pigeon", {"policy_objective": "BEST"}, "policy_objective is 'BEST': it must be one of A_BINPACK, LOAD_BALANCE, CONSOLIDATE"),
        ("metric", {"best": 1, "worst": 2}, "query is missing"),
        ("metric", {"query": "up", "best": 1, "worst": 1}, "best is 1.0 and worst is 1.0: they must be different numbers"),
        ("reward", {"rate": 0}, "rate is 0: it must be a number from 0.001 to 1"),
        ("template", {"score": "high"}, "score is 'high': it must be a number from 0 to 10"),
        ("network_traffic", {"max_age_s": 1.5}, "max_age_s is 1.5: it must be a time"),
        ("network_traffic", {"max_utilisation": [1]}, "max_utilisation is a list: it must be a number"),
        ("network_traffic", {"devices": "eth0"}, "devices is 'eth0': it must be a list"),
        ("network_traffic", {"devices": [{"nodes": None, "device": "b"}]}, r"devices\[0\].nodes is missing"),
        ("network_traffic", {"direction": 1}, "direction is 1: it must be one of receive, transmit, both"),
        ("safe_overload", {"cpu": 1}, "cpu is 1: it must be a mapping with percentile"),
        ("safe_overload", {"count_new_pods": "perhaps"}, "count_new_pods is 'perhaps': it must be true or false"),
    ],
)
def test_a_wrong_argument_is_named(name: str, args: dict[str, t.Any], text: str) -> None:
    with pytest.raises(AgentError, match=f"^agent {name}, args: {text}"):
        build_agent(name, args)


MEASURED = ("network_traffic", "safe_overload", "safe_balance", "congestion", "metric")


@pytest.mark.parametrize("name", MEASURED)
def test_an_age_is_a_number_of_seconds_or_a_text(name: str) -> None:
    ages = [build_agent(name, {**REQUIRED.get(name, {}), "max_age_s": age}).args.max_age_s for age in (90, "90s", "1m30s")]
    assert ages == [90] * 3


def install(folder: Path, *, entry: str, source: str, distribution: str = "large_agents") -> None:
    """Lay out a package as pip does."""
    (folder / f"{distribution}.py").write_text(source)
    metadata = folder / f"{distribution}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[onprem_kube_scheduling.agents]\n{entry}\n")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> t.Iterator[Path]:
    """A folder on the path of imports."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in set(sys.modules) - before:
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def test_an_agent_of_another_package_is_found_by_its_entry_point(packages: Path) -> None:
    install(packages, entry="large = large_agents:Large", source=VALID)
    assert "large" in agent_names() and "large_agents" not in sys.modules
    assert build_agent("large", {"size": 3}).args.size == 3
    with pytest.raises(AgentError, match="agent large, args: size is too large"):
        build_agent("large", {"size": 10})


def test_an_agent_without_arguments_says_so(packages: Path) -> None:
    install(packages, entry="bare = large_agents:Bare", source=VALID)
    with pytest.raises(AgentError, match="agent bare, args: size is not a setting; there are no settings here"):
        build_agent("bare", {"size": 3})


def test_any_error_of_another_package_is_an_error_of_its_agent(packages: Path) -> None:
    install(packages, entry="large = large_agents:Large", source=AGENT.format(error="KeyError"))
    with pytest.raises(AgentError, match="agent large cannot be started: KeyError: 'size is too large'"):
        build_agent("large", {"size": 10})


@pytest.mark.parametrize(
    ("entry", "source", "text"),
    [
        (
            "large = large_agents:Large",
            "import module_that_does_not_exist",
            "cannot be imported from large_agents:Large: ModuleNotFound",
        ),
        ("large = large_agents:Large", "def (", "cannot be imported from large_agents:Large: SyntaxError"),
        ("large = large_agents:Nothing", VALID, "cannot be imported from large_agents:Nothing: AttributeError"),
        ("large = large_agents:Args", VALID, "its entry point is .*Args.* interface.Agent"),
        ("large = large_agents:WithoutArgs", VALID, "the class WithoutArgs has no args_type"),
        ("large = large_agents:Small", VALID, "the class Small has the name 'small': set name = 'large' in the class"),
        (
            "large = large_agents:Large",
            VALID.replace('name = "large"', 'name = "large"; compares_nodes = True'),
            "the class Large sets compares_nodes, .* per_demand = True",
        ),
        ("large = large_agents:Unnamed", VALID, "the class Unnamed has the name '': set name = 'large' in the class"),
    ],
)
def test_a_broken_package_is_refused_by_the_name_of_its_agent(packages: Path, entry: str, source: str, text: str) -> None:
    install(packages, entry=entry, source=source)
    with pytest.raises(AgentError, match=f"^agent large:? {text}"):
        load_agent("large")
    assert load_agent("template").name == "template"


def test_a_name_that_two_packages_provide_is_refused(packages: Path) -> None:
    for distribution in ("first", "second"):
        install(packages, entry=f"large = {distribution}:Large", source=VALID, distribution=distribution)
    with pytest.raises(AgentError, match="agent large: several packages provide it"):
        load_agent("large")


def forget_agents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the next request for an agent import its module again."""
    for name in [name for name in sys.modules if ".extender.agents." in name and not name.endswith((".registry", ".arguments"))]:
        monkeypatch.delitem(sys.modules, name)


def test_an_agent_whose_library_is_missing_is_refused_and_the_others_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_agents(monkeypatch)
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(AgentError, match=r"agent pigeon cannot be imported: ModuleNotFoundError: .*numpy"):
        load_agent("pigeon")
    assert build_agent("congestion").name == "congestion"


def test_an_agent_whose_library_refuses_the_processor_is_refused_and_the_others_continue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget_agents(monkeypatch)
    monkeypatch.delitem(sys.modules, "numpy", raising=False)
    (tmp_path / "numpy.py").write_text("raise RuntimeError('the processor has no X86_V2')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(AgentError, match="agent safe_overload cannot be imported: RuntimeError: the processor has no X86_V2"):
        load_agent("safe_overload")
    assert build_agent("network_traffic").name == "network_traffic"
