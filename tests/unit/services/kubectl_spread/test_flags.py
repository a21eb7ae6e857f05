# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The flags of kubectl spread, and the errors about those that cannot be used."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.services.kubectl_spread import cli
from ansible_collections.onprem.kube_scheduling.services.kubectl_spread.flags import UsageError, parse_flags

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: berlin
clusters: [{name: one, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: me, user: {token: secret-token}}]
contexts:
- {name: berlin, context: {cluster: one, user: me, namespace: shop}}
- {name: paris, context: {cluster: one, user: me}}
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    return {"KUBECONFIG": str(file)}


def options(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], *flags: str) -> CheckOptions:
    """The options of the check that these flags make. The check itself is not made."""
    found: list[CheckOptions] = []

    def result(_target: object, options: CheckOptions) -> dict[str, object]:
        found.append(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_result", result)
    assert cli.run(flags, environment, io.StringIO()) == cli.INTERRUPTED
    return found[0]


def test_without_flags_the_namespace_of_the_context_is_checked(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    found = options(monkeypatch, environment)
    assert found == CheckOptions(namespaces=("shop",), namespace_annotation=None)


@pytest.mark.parametrize(
    ("flags", "namespaces"),
    [
        (["--context=paris"], ("default",)),
        (["-n", "a", "-n", "b,c"], ("a", "b", "c")),
        (["--namespace=a"], ("a",)),
        (["-A"], None),
    ],
)
def test_namespaces(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], flags: list[str], namespaces: object) -> None:
    assert options(monkeypatch, environment, *flags).namespaces == namespaces


def test_each_flag_of_the_check_has_an_effect(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    flags = ["-A", "--exclude-namespace=x", "-l", "app in (a,b)", "--namespace-annotation=k=v", "--kind=sts", "--topology-key=rack,zone"]
    more = ["--max-skew=2", "--min-ready-nodes=3", "--scheduler-config=configmap:kube-system/scheduler", "--no-predict"]
    assert options(monkeypatch, environment, *flags, *more) == CheckOptions(
        namespaces=None,
        exclude_namespaces=("x",),
        label_selectors=("app in (a,b)",),
        namespace_annotation=("k", "v"),
        kinds=("StatefulSet",),
        topology_keys=("rack", "zone"),
        max_skew=2,
        min_ready_nodes=3,
        scheduler_config=("configmap:kube-system/scheduler",),
        predict=False,
    )


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--max-skw=1"], "--max-skw is not a flag; the nearest is --max-skew; `kubectl spread --help` lists the flags"),
        (["web"], "web is one argument too many: kubectl spread takes only flags, and --selector selects workloads by their labels"),
        (["-o", "jsn"], "the output format 'jsn' is unknown; the nearest is json; use one of wide, json, yaml, html, markdown"),
        (["-A", "-n", "a"], "--all-namespaces and --namespace exclude each other; leave one of them out"),
        (["--max-skew=x"], "argument --max-skew: invalid int value: 'x'"),
        (["-n"], "argument -n/--namespace: expected one argument"),
        (["--max-skew=0"], "--max-skew is 0: it must be at least 1"),
        (["-n", "No"], "--namespace: 'No' is not a namespace name"),
        (["--kind=ds"], "--kind: 'ds' is not one of Deployment, StatefulSet"),
        (["--topology-key=a b"], "--topology-key: 'a b' is not a label key"),
        (["-l", "%"], "--selector: '%' in '%' is not a label key"),
        (["--namespace-annotation=x"], "--namespace-annotation: 'x' is not key=value"),
        (["--kubeconfig=/nowhere"], "kubeconfig /nowhere cannot be used: there is no file /nowhere."),
        (["--context=rome"], "there is no context rome in it; it has berlin, paris"),
    ],
)
def test_a_wrong_flag_is_named(capsys: pytest.CaptureFixture[str], environment: dict[str, str], flags: list[str], text: str) -> None:
    output = io.StringIO()
    assert cli.run(flags, environment, output) == cli.CONFIGURATION
    assert output.getvalue() == ""
    errors = capsys.readouterr().err
    assert errors.startswith("error: ") and text in errors and errors.count("\n") == 1


def test_without_a_kubeconfig_the_error_says_how_to_give_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert cli.run(["-A"], {}, io.StringIO()) == cli.CONFIGURATION
    assert "no cluster is given: give --kubeconfig=FILE, or set KUBECONFIG" in capsys.readouterr().err


def test_an_unreachable_server_has_its_own_exit_code(capsys: pytest.CaptureFixture[str], environment: dict[str, str]) -> None:
    assert cli.run(["-A"], environment, io.StringIO()) == cli.API
    errors = capsys.readouterr().err
    assert errors.startswith("error: no answer from the Kubernetes API server https://127.0.0.1:1") and "secret-token" not in errors


def test_a_defect_has_not_the_exit_code_of_a_collapsed_workload(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    monkeypatch.setattr(cli, "_result", lambda _target, _options: {}["missing"])
    assert cli.run([], environment, io.StringIO()) == cli.INTERNAL
    errors = capsys.readouterr().err
    assert "KeyError" in errors and "please report it" in errors


def test_the_help_names_each_flag_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_flags(["--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert "exit codes: 0 nothing collapsed or skewed, 1 some workload is" in shown
    assert all(f"--{name}" in shown for name in ("kubeconfig", "context", "all-namespaces", "selector", "topology-key", "output"))


def test_an_unknown_short_flag_is_refused() -> None:
    with pytest.raises(UsageError, match="-x is not a flag"):
        parse_flags(["-x"])
