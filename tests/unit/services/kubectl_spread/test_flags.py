# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The flags of kubectl spread, and the errors about those that cannot be used."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.connection_settings import ConnectionSettings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.files import ConnectionSettingsError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ConfigurationError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.services.kubectl_spread import cli
from ansible_collections.onprem.kube_scheduling.services.kubectl_spread.connection import find_target
from ansible_collections.onprem.kube_scheduling.services.kubectl_spread.flags import UsageError, parse_flags

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: berlin
clusters:
- {name: one, cluster: {server: "https://127.0.0.1:1", certificate-authority-data: QQ==, tls-server-name: one.example.org}}
- {name: two, cluster: {server: "https://127.0.0.1:2", insecure-skip-tls-verify: true}}
users:
- {name: me, user: {token: secret-token}}
- {name: other, user: {username: other, password: secret-password, as: boss, as-groups: [bosses]}}
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

    def result(_target: object, options: CheckOptions, _named: object) -> None:
        found.append(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_result", result)
    assert cli.run(flags, environment, io.StringIO()) == cli.INTERRUPTED
    return found[0]


def test_without_flags_the_namespace_of_the_context_is_checked(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    found = options(monkeypatch, environment)
    assert found == CheckOptions(namespaces=("shop",), namespace_annotations=())


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
        namespace_annotations=(("k", "v"),),
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
        (["web"], "'web' is not a kind"),
        (["deploy/web", "-A"], "give its namespace with --namespace"),
        (["deploy", "web", "-l", "a=b"], "name and --selector exclude each other"),
        (["deploy", "--kind=sts"], "--kind and the kind 'deploy' exclude each other"),
        (["-A=maybe"], "-A: 'maybe' is neither true nor false"),
        (["-v=6"], "-v is a flag of kubectl that kubectl spread does not have"),
        (["-v6"], "-v6 is a flag of kubectl that kubectl spread does not have"),
        (["--cache-dir=/tmp"], "--cache-dir is a flag of kubectl that kubectl spread does not have"),
        (["--request-timeout=soon"], "--request-timeout: 'soon' is not a time; "),
        (["--request-timeout=-1"], "--request-timeout: '-1' is not a time"),
        (["--request-timeout=++5s"], "--request-timeout: '++5s' is not a time"),
        (["--request-timeout=.s"], "--request-timeout: '.s' is not a time"),
        (["--request-timeout=1.5"], "--request-timeout: '1.5' is not a time"),
        (["--request-timeout=\u0665"], "--request-timeout: '\u0665' is not a time"),
        (["--token=a", "--username=b", "--password=c"], "--token excludes --username and --password"),
        (["--username=b"], "--username and --password need each other"),
        (
            ["--insecure-skip-tls-verify", "--certificate-authority=/x"],
            "--certificate-authority and --insecure-skip-tls-verify exclude each other",
        ),
        (["--as=a", "--as-user-extra=b"], "--as-user-extra: 'b' is not KEY=VALUE"),
        (["--as-group=a"], "--as-uid, --as-group and --as-user-extra need --as"),
        (["--client-key=/nowhere"], "--client-key names the file /nowhere, which does not exist"),
        (["--cluster=three"], "there is no cluster three in it; it has one, two"),
        (["--user=you"], "there is no user you in it; it has me, other"),
        (["-o", "jsn"], "the output format 'jsn' is unknown; the nearest is json; use one of wide, json, yaml, html, markdown"),
        (["-A", "-n", "a"], "--all-namespaces and --namespace exclude each other"),
        (["--max-skew=x"], "argument --max-skew: invalid int value: 'x'"),
        (["-n"], "argument -n/--namespace: expected one argument"),
        (["--max-skew=0"], "--max-skew is 0: it must be at least 1"),
        (["-n", "No"], "--namespace: 'No' is not a namespace name"),
        (["--kind=ds"], "--kind: 'ds' is not a kind"),
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


def test_an_error_has_no_control_characters(capsys: pytest.CaptureFixture[str], environment: dict[str, str]) -> None:
    file = Path(environment["KUBECONFIG"])
    file.write_text(KUBECONFIG.replace("name: paris,", 'name: "\\e[31mparis\\e]0;title\\a",'))
    assert cli.run(["--context=rome"], environment, io.StringIO()) == cli.CONFIGURATION
    assert "it has berlin, ?[31mparis?]0;title?." in capsys.readouterr().err


def test_without_a_kubeconfig_the_error_says_how_to_give_one(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert cli.run(["-A"], {}, io.StringIO()) == cli.CONFIGURATION
    assert "no cluster is given: give --kubeconfig=FILE, " in capsys.readouterr().err


def test_an_unreachable_server_has_its_own_exit_code(capsys: pytest.CaptureFixture[str], environment: dict[str, str]) -> None:
    assert cli.run(["-A", "--cluster=two"], environment, io.StringIO()) == cli.API
    errors = capsys.readouterr().err
    assert errors.startswith("error: no answer ") and "https://127.0.0.1:2" in errors and "secret-token" not in errors


def test_a_defect_has_not_the_exit_code_of_a_collapsed_workload(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]
) -> None:
    monkeypatch.setattr(cli, "_result", lambda *_arguments: {}["missing"])
    assert cli.run([], environment, io.StringIO()) == cli.INTERNAL
    errors = capsys.readouterr().err
    assert "KeyError" in errors and "please report it" in errors


def test_the_help_names_each_flag_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_flags(["--help"])
    shown = capsys.readouterr().out
    assert ended.value.code == 0
    assert "exit codes: 0 nothing collapsed" in shown
    assert all(f"--{name}" in shown for name in ("kubeconfig", "context", "all-namespaces", "selector", "topology-key", "output"))


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        *[([], None), (["0"], None), (["0s"], None), (["5"], 5.0), (["1m1.5s"], 61.5), (["250ms"], 0.25), (["1h"], 3600.0)],
        *[([".5s"], 0.5), (["1.s"], 1.0), (["+5s"], 5.0), (["+5"], 5.0), (["+1m.5s"], 60.5)],
        *[(["500000\u00b5s"], 0.5), (["500000\u03bcs"], 0.5)],
    ],
)
def test_the_time_of_a_request_is_read_as_in_kubectl(words: list[str], seconds: float | None) -> None:
    assert parse_flags([f"--request-timeout={word}" for word in words]).request_timeout_s == seconds


@pytest.mark.parametrize(
    ("words", "given"),
    [(["-A=true"], True), (["--all-namespaces=1"], True), (["-A", "--all-namespaces=false"], False), (["-A=f"], False)],
)
def test_a_switch_may_have_a_value(words: list[str], given: bool) -> None:
    assert parse_flags(words).all_namespaces is given


def test_words_without_a_flag_are_arguments_wherever_they_are() -> None:
    found = parse_flags(["deploy/web", "-n", "shop", "sts/db", "--", "deploy/-odd"])
    assert (found.arguments, found.namespace) == (["deploy/web", "sts/db", "deploy/-odd"], ["shop"])


def settings(environment: dict[str, str], *flags: str) -> ConnectionSettings:
    return find_target(parse_flags(flags), environment).options.settings()


def test_a_cluster_and_a_user_replace_those_of_the_context(environment: dict[str, str]) -> None:
    plain = settings(environment)
    assert (plain.server, plain.verify, plain.authorization()) == ("https://127.0.0.1:1", True, "Bearer secret-token")
    other = settings(environment, "--cluster=two", "--user=other")
    assert (other.server, other.verify, other.authorization()[:6]) == ("https://127.0.0.1:2", False, "Basic ")
    assert other.headers == (("Impersonate-User", "boss"), ("Impersonate-Group", "bosses"))
    target = find_target(parse_flags(["--cluster=two"]), environment)
    assert (target.options.settings().identity.name, target.namespace) == ("two", "shop")


def test_a_server_keeps_the_authority_and_the_login_of_the_kubeconfig(environment: dict[str, str]) -> None:
    """Otherwise a token in a flag would need the certificate of the authority in a flag, which kubectl does not require."""
    found = settings(environment, "--server=https://10.0.0.1:6443/", "--token=mine")
    assert (found.server, found.ca, found.authorization()) == ("https://10.0.0.1:6443", b"A", "Bearer mine")
    assert found.identity.name == "https://10.0.0.1:6443"
    assert found.tls_server_name == "" and settings(environment).tls_server_name == "one.example.org"
    assert settings(environment, "-s", "https://10.0.0.1", "--tls-server-name=x").tls_server_name == "x"


def test_files_and_switches_of_tls_replace_those_of_the_cluster(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "pem").write_text("x")
    flags = [f"--{name}={tmp_path / 'pem'}" for name in ("certificate-authority", "client-certificate", "client-key")]
    found = settings(environment, "--cluster=two", *flags)
    assert (found.ca, found.client_certificate, found.client_key, found.verify) == (*[tmp_path / "pem"] * 3, True)
    assert settings(environment, "--insecure-skip-tls-verify").ca is None


def test_a_flag_of_an_impersonation_replaces_the_same_part_in_the_kubeconfig(environment: dict[str, str]) -> None:
    found = settings(environment, "--user=other", "--as-group=a,b", "--as-group=c", "--as-uid=7", "--as-user-extra=Scope/x=1=2")
    assert sorted(found.headers) == [
        ("Impersonate-Extra-Scope%2Fx", "1=2"),
        ("Impersonate-Group", "a,b"),
        ("Impersonate-Group", "c"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-User", "boss"),
    ]


def test_a_login_by_exec_needs_a_context_unless_a_flag_has_the_login(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG.replace("{username: other, password: secret-password, ", '{exec: {command: "false"}, '))
    assert settings(environment, "--user=other", "--token=mine").authorization() == "Bearer mine"
    with pytest.raises(ConnectionSettingsError, match="the user of a context"):
        settings(environment, "--user=other")


def test_without_a_kubeconfig_a_server_and_a_login_are_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    target = find_target(parse_flags(["-s", "https://me@10.0.0.1", "--token=mine"]), {})
    found = target.options.settings()
    assert (found.identity.line, found.authorization()) == ("https://10.0.0.1", "Bearer mine")
    with pytest.raises(UsageError, match="--server needs a login: --token"):
        find_target(parse_flags(["-s", "https://10.0.0.1"]), {})
    with pytest.raises(ConfigurationError, match="--user names an entry of a kubeconfig"):
        find_target(parse_flags(["-s", "https://10.0.0.1", "--token=mine", "--user=me"]), {})


def test_an_unknown_short_flag_is_refused() -> None:
    with pytest.raises(UsageError, match="-x is not a flag"):
        parse_flags(["-x"])
