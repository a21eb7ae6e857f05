# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The settings of the rebalancer: names and defaults of the modules, and one run that names every mistake with its origin."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import RestartOptions
from ansible_collections.onprem.kube_scheduling.services.common.addresses import Address
from ansible_collections.onprem.kube_scheduling.services.common.typed_settings import SettingsError
from ansible_collections.onprem.kube_scheduling.services.rebalancer.cli import main
from ansible_collections.onprem.kube_scheduling.services.rebalancer.settings import DEFAULTS, OPTIONS, Settings, read_settings

from tools.paths import ROOT

MODULES = ("k8s_spread_check", "k8s_rollout_restart")
NOT_SETTINGS = {"name", "namespace", "kind", "workloads", "check", "include_healthy", "include_nodes", "predict", "only_if_helps"}
"""Options of the modules that choose single workloads or the form of the result, or that are fixed in a pass."""


OWN = {field.name for field in dataclasses.fields(Settings)} - {"options"}
"""The settings of the program itself."""


def read(*flags: str, file: Path | None = None, **environment: str) -> Settings:
    return read_settings([*flags, *(["--config", str(file)] if file else [])], environment)


def config(folder: Path, text: str) -> Path:
    file = folder / "rebalancer.yml"
    file.write_text(text)
    return file


def options_of_modules() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name in MODULES:
        module = importlib.import_module(f"ansible_collections.onprem.kube_scheduling.plugins.modules.{name}")
        found = module.argument_spec() | found
    return found


def test_the_settings_are_the_options_of_the_modules() -> None:
    assert {option.name for option in OPTIONS} - OWN == set(options_of_modules()) - NOT_SETTINGS


def test_the_defaults_are_those_of_the_modules() -> None:
    options = options_of_modules()
    assert {name: options[name]["default"] for name in DEFAULTS} == dict(DEFAULTS)
    settings = read()
    assert settings.options.check == CheckOptions()
    assert settings.options.restart == RestartOptions(asks_server=False)
    assert (settings.interval, settings.listen_address) == (0, Address("127.0.0.1", 9236))


def test_a_file_with_every_kind_of_value(tmp_path: Path) -> None:
    text = "namespaces: [shop]\nnamespace_annotation: ''\nlabel_selectors: ['app in (a,b)', tier]\nmax_skew: 1\ncooldown: 5m\nwait: false\n"
    settings = read(
        file=config(
            tmp_path,
            text
            + "spread_constraint: add\nforce_managed: true\nstrategy: auto\nmax_workloads: 2\nmetrics_path: /x/y.prom\ninterval: 10m\n",
        )
    )
    check, restart = settings.options
    assert (check.namespaces, check.namespace_annotations, check.label_selectors) == (("shop",), (), ("app in (a,b)", "tier"))
    assert (check.max_skew, restart.max_skew, check.cooldown_s, restart.cooldown_s) == (1, 1, 300, 300)
    assert (restart.wait, restart.strategy, restart.max_workloads) == (False, "auto", 2)
    assert (restart.spread_constraint, restart.force_managed) == ("add", True)
    assert (settings.metrics_path, settings.interval) == ("/x/y.prom", 600)


def test_both_parts_have_the_same_topology_keys() -> None:
    check, restart = read("--topology-keys=topology.kubernetes.io/zone,kubernetes.io/hostname").options
    assert list(check.topology_keys) == list(restart.topology_keys) == ["topology.kubernetes.io/zone", "kubernetes.io/hostname"]


def test_a_selector_with_commas_on_the_command_line() -> None:
    assert read("--label-selectors=app in (a,b),tier=front").options.check.label_selectors == ("app in (a,b)", "tier=front")


def test_a_dry_run_sends_no_writes() -> None:
    restart = read("--dry-run").options.restart
    assert restart.dry_run and not restart.asks_server


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"KUBE_CONFIG": "/k"}, None),
        ({"DEV": "", "KUBE_CONFIG": "/k"}, None),
        ({"DEV": "true"}, "~/.kube/config"),
        ({"DEV": "x", "KUBE_CONFIG": "/k"}, "/k"),
        ({"DEV": "x", "KUBE_CONFIG": "/k", "REBALANCER_KUBECONFIG": "/own"}, "/own"),
    ],
)
def test_the_variables_of_the_original(environment: dict[str, str], expected: str | None) -> None:
    assert read(**environment).kubeconfig == expected


MISTAKES = """
max_skewed: 1
max_skew: 0
strategy: rolout
spread_constraint: remove
kinds: [DaemonSet]
cooldown: soon
topology_keys: []
namespaces: [UPPER]
interval: -1
listen_address: '9236'
pushgateway_url: ftp://admin:hunter2@host
metrics_path: /x/metrics.txt
namespace_annotation: x y=z
wait_sleep: 0
max_parallel: 0
"""


def test_one_run_names_every_mistake_with_its_origin(tmp_path: Path) -> None:
    file = config(tmp_path, MISTAKES)
    with pytest.raises(SettingsError) as caught:
        read("--max-evictions=none", "--no-such=1", file=file, REBALANCER_LOG_LEVEL="loud", REBALANCER_MAX_WORKLOAD="1")
    found = [str(error) for error in caught.value.errors]
    expected = [
        "--no-such is not a flag",
        "variable REBALANCER_MAX_WORKLOAD is not a setting; the nearest is REBALANCER_MAX_WORKLOADS",
        f"file {file}, line 2, max_skewed is not a setting; the nearest is max_skew",
        f"file {file}, line 4, strategy is 'rolout': it must be one of rollout, evict_surplus, auto",
        f"file {file}, line 5, spread_constraint is 'remove': it must be one of keep, add",
        f"file {file}, line 6, kinds is a list: 'DaemonSet' is not one of Deployment, StatefulSet",
        f"file {file}, line 7, cooldown is 'soon': it must be a time",
        "flag --max-evictions is 'none': it must be a whole number",
        "variable REBALANCER_LOG_LEVEL is 'loud': it must be one of debug, info, warning, error",
        f"file {file}, line 3, max_skew is 0: it must be at least 1",
        f"file {file}, line 8, topology_keys: is empty",
        f"file {file}, line 9, namespaces: 'UPPER' is not a namespace name",
        f"file {file}, line 10, interval is -1",
        f"file {file}, line 11, listen_address is '9236'",
        f"file {file}, line 12, pushgateway_url is a text: it is not",
        f"file {file}, line 13, metrics_path is '/x/metrics.txt': ",
        f"file {file}, line 14, namespace_annotation: 'x y=z' is not key=value",
        f"file {file}, line 15, wait_sleep is 0: it must be at least 1",
        f"file {file}, line 16, max_parallel is 0: it must be at least 1",
    ]
    assert [text for text in expected if not any(one.startswith(text) for one in found)] == []
    assert len(found) == len(expected) and "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://gateway:9091", "https://gateway.example.org/prefix", "http://[::1]:9091/"])
def test_addresses_of_a_pushgateway(url: str) -> None:
    assert read(f"--pushgateway-url={url}").pushgateway_url == url.rstrip("/")


@pytest.mark.parametrize("url", ["gateway:9091", "http://", "http://host:port", "http://user@host", "http://host?job=x", "http://[::1"])
def test_texts_that_are_no_address_of_a_pushgateway(url: str) -> None:
    with pytest.raises(SettingsError, match=r"flag --pushgateway-url is .*: it is not the address"):
        read(f"--pushgateway-url={url}")


def test_check_config_ends_with_0_or_2_and_prints_each_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check-config", "--config", str(config(tmp_path, "max_skew: 1\n"))], {}) == 0
    assert capsys.readouterr().out == "the settings can be used\n"
    assert main(["--check-config", "--config", str(config(tmp_path, "max_skew: 0\nwait: perhaps\n"))], {}) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and all(line.startswith("rebalancer: file ") for line in lines)


def test_the_guide_has_every_setting() -> None:
    guide = (ROOT / "docs" / "rebalance.md").read_text()
    chapter = guide.split("\n## The program rebalancer\n")[1].split("\n## ")[0]
    assert [option.name for option in OPTIONS if f"`{option.name}`" not in chapter] == []
    assert {option.name for option in OPTIONS} >= OWN
