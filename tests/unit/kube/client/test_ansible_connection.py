# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Kubeconfigs that cannot be used get an error that names the file; errors of this program are not taken for such."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import traceback
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.kubernetes.core.plugins.action.k8s_info import ActionModule as CoreActionModule
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import ansible_connection, open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ConfigurationError, UnreachableError
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.kubeconfig_action import ActionModule

GOOD = """
apiVersion: v1
kind: Config
current-context: lab
contexts: [{name: lab, context: {cluster: lab, user: me}}]
clusters: [{name: lab, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: me, user: {token: secret}}]
"""

Connect = t.Callable[[str], object]


def as_service(kubeconfig: str) -> object:
    return open_transport.open_transport(user_agent="test", kubeconfig=kubeconfig)


def as_module(kubeconfig: str) -> object:
    return connect_module({"kubeconfig": kubeconfig})


def connect_module(params: dict[str, t.Any]) -> object:
    module = SimpleNamespace(params=params)
    return ansible_connection.connect(module, name="test")


def changed(old: str, new: str) -> bytes:
    assert old in GOOD
    return GOOD.replace(old, new).encode()


@pytest.mark.parametrize("connect", [as_service, as_module])
@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"- a\n- b\n", id="a list"),
        pytest.param(b"hello", id="a word"),
        pytest.param(b"42", id="a number"),
        pytest.param(b"{ a: [b", id="no yaml"),
        pytest.param(b"a: !!python/object:os.system {}", id="a yaml tag"),
        pytest.param(GOOD.encode() + b"---\n" + GOOD.encode(), id="two documents"),
        pytest.param(bytes(range(256)), id="binary"),
        pytest.param(b"\x7fELF\x02\x01\x01\x00", id="a program"),
        pytest.param(changed("current-context: lab", ""), id="no current context"),
        pytest.param(changed("current-context: lab", "current-context: other"), id="missing context"),
        pytest.param(changed("{cluster: lab, user: me}", "lab"), id="a context that is a word"),
        pytest.param(changed("contexts: [{name: lab, context: {cluster: lab, user: me}}]", "contexts: [lab]"), id="a list of words"),
        pytest.param(changed("cluster: lab,", "cluster: other,"), id="missing cluster"),
        pytest.param(changed('"https://127.0.0.1:1"', "null"), id="no server"),
        pytest.param(changed('"https://127.0.0.1:1"', "42"), id="a server that is a number"),
        pytest.param(changed('"https://127.0.0.1:1"', '"https://[::1"'), id="a server that is no address"),
        pytest.param(changed('1:1"', '1:1", certificate-authority-data: abc'), id="a certificate of half a letter"),
        pytest.param(changed('1:1"', '1:1", certificate-authority-data: 42'), id="a certificate that is a number"),
        pytest.param(changed('1:1"', '1:1", certificate-authority: /nowhere/ca'), id="missing certificate file"),
        pytest.param(changed('1:1"', '1:1", certificate-authority: 42'), id="a certificate file that is a number"),
        pytest.param(changed('1:1"', '1:1", proxy-url: 42'), id="a proxy that is a number"),
        pytest.param(changed("token: secret", "tokenFile: /nowhere/token"), id="missing token file"),
        pytest.param(changed("token: secret", "auth-provider: {name: oidc, config: hello}"), id="a login that is a word"),
    ],
)
def test_a_malformed_kubeconfig_is_named(content: bytes, connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        connect(str(path))
    assert f"kubeconfig {path}" in str(caught.value)
    assert "Check the file" in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize("connect", [as_service, as_module])
@pytest.mark.parametrize("path", ["nowhere", "."])
def test_what_is_no_file(path: str, connect: Connect, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Check the file"):
        connect(str(tmp_path / path))


BY_PLUGIN = GOOD.replace("token: secret", "exec: {apiVersion: client.authentication.k8s.io/v1, command: 'false'}")


@pytest.mark.parametrize("error", [AssertionError, NameError, RuntimeError, NotImplementedError])
@pytest.mark.parametrize("connect", [as_service, as_module])
def test_errors_of_the_program_are_not_taken_for_the_user_s(
    error: type[Exception], connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: t.Any, **_options: t.Any) -> None:
        raise error("a bug")

    path = tmp_path / "config"
    path.write_text(BY_PLUGIN)
    monkeypatch.setattr("kubernetes.config.load_kube_config", broken)
    with pytest.raises(error, match="a bug"):
        connect(str(path))


@pytest.mark.parametrize("connect", [as_service, as_module])
@pytest.mark.parametrize(
    "user",
    [
        pytest.param("exec: {apiVersion: client.authentication.k8s.io/v1, command: 'false'}", id="a plugin that fails"),
        pytest.param("exec: {apiVersion: client.authentication.k8s.io/v1, command: /nowhere}", id="a plugin that is missing"),
        pytest.param("auth-provider: {name: azure, config: {}}", id="an unknown provider"),
    ],
)
def test_a_login_without_credentials_is_an_error_instead_of_requests_of_nobody(user: str, connect: Connect, tmp_path: Path) -> None:
    """An API server would call the user system:anonymous, and the error would ask for a role for that user."""
    path = tmp_path / "config"
    path.write_bytes(changed("token: secret", user))
    with pytest.raises(ConfigurationError, match=r"returned neither a token nor a certificate.*Run kubectl") as caught:
        connect(str(path))
    assert f"kubeconfig {path}" in str(caught.value)


def test_a_login_without_credentials_is_no_error_where_the_options_have_some(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(BY_PLUGIN)
    with pytest.raises(UnreachableError):
        connect_module({"kubeconfig": str(path), "api_key": "a"})


@pytest.mark.parametrize("connect", [as_service, as_module])
def test_an_address_at_which_nobody_listens(connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(GOOD)
    with pytest.raises(UnreachableError, match=r"API server https://127.0.0.1:1"):
        connect(str(path))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, and nothing that says where the cluster is."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "K8S_AUTH_KUBECONFIG", "K8S_AUTH_CONTEXT", "K8S_AUTH_HOST"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.mark.parametrize("content", [None, GOOD.replace("current-context: lab", "")], ids=["no file", "no current context"])
def test_where_no_cluster_is_given_it_is_said_how(content: str | None, home: Path) -> None:
    if content is not None:
        (home / ".kube").mkdir()
        (home / ".kube" / "config").write_text(content)
    with pytest.raises(
        ConfigurationError, match=r"no cluster given: set .*rebalance_kubeconfig.*KUBECONFIG or K8S_AUTH_\*; ~/.kube/config"
    ):
        connect_module({})


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"context": "other"}, "kubeconfig HOME/.kube/config, context other: there is no context other in it; it has lab"),
        ({"kubeconfig": "HOME/nowhere"}, "kubeconfig HOME/nowhere: there is no file HOME/nowhere"),
        ({"host": "https://127.0.0.1:1"}, "host https://127.0.0.1:1: the option host is given without"),
    ],
)
def test_what_is_wrong_with_the_settings_is_said(params: dict[str, str], said: str, home: Path) -> None:
    if "context" in params:
        (home / ".kube").mkdir()
        (home / ".kube" / "config").write_text(GOOD)
    with pytest.raises(ConfigurationError) as caught:
        connect_module({name: value.replace("HOME", str(home)) for name, value in params.items()})
    assert said.replace("HOME", str(home)) in str(caught.value)


CONTENTS = [
    pytest.param(GOOD, id="YAML"),
    pytest.param('{"users": [{"name": "me", "user": {"token": "secret"}}]}', id="JSON"),
    pytest.param(" ".join(GOOD.split()), id="YAML without line breaks"),
]


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("given_by", ["kubeconfig", "KUBECONFIG", "K8S_AUTH_KUBECONFIG"])
def test_content_in_the_place_of_a_path_is_named_and_not_shown(
    content: str, given_by: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = {}
    if given_by == "kubeconfig":
        params["kubeconfig"] = content
    else:
        monkeypatch.setenv(given_by, content)
    with pytest.raises(ConfigurationError, match=f"{given_by}.* has the content of a kubeconfig") as caught:
        connect_module(params)
    shown = "".join(traceback.format_exception(None, caught.value, caught.value.__traceback__))
    assert "secret" not in shown and "users" not in shown


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("variable", ["KUBECONFIG", "K8S_AUTH_KUBECONFIG"])
def test_an_action_hides_content_in_a_variable_of_the_task_and_refuses_it(
    content: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_task(_action: object, found: dict[str, str]) -> None:
        found.update({variable: content, "OTHER": "x"})

    monkeypatch.setattr(CoreActionModule, "_compute_environment_string", of_task)
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args={}, get_ds=dict)
    action._connection = SimpleNamespace(_shell=SimpleNamespace(env_prefix=lambda **shown: shown), transport="local", become=None)
    assert action._compute_environment_string() == {"OTHER": "x"}
    with pytest.raises(AnsibleActionFail, match=f"{variable} .* has the content") as caught:
        action.run()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("kubeconfig", "said"),
    [
        pytest.param("~no-such-user/config", "the home folder in the path ~no-such-user/config is not known", id="no such user"),
        pytest.param("c2VjcmV0" * 100, "a path is too long", id="a name that is too long"),
        pytest.param("c2VjcmV0/" * 600, "a path is too long", id="a path that is too long"),
        pytest.param("HOME/loop", "the file HOME/loop cannot be read: Too many levels of symbolic links", id="a link to itself"),
        pytest.param("HOME/refused", "the file HOME/refused cannot be read: Permission denied", id="a folder without rights"),
    ],
)
def test_a_path_that_the_system_refuses_is_an_error_of_the_settings(
    kubeconfig: str, said: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_look(monkeypatch)
    (home / "loop").symlink_to(home / "loop")
    with pytest.raises(ConfigurationError) as caught:
        connect_module({"kubeconfig": kubeconfig.replace("HOME", str(home))})
    assert said.replace("HOME", str(home)) in str(caught.value) and "c2VjcmV0" not in str(caught.value)


@pytest.mark.parametrize("option", ["ca_cert", "client_cert", "client_key"])
@pytest.mark.parametrize(
    ("path", "said"),
    [("/refused", "/refused cannot be read: Permission denied"), ("~no-such-user/x", "home folder"), ("c2VjcmV0" * 100, "too long")],
)
def test_a_path_of_an_option_that_the_system_refuses_is_an_error_of_the_settings(
    option: str, path: str, said: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_to_look(monkeypatch)
    with pytest.raises(ConfigurationError, match=said) as caught:
        connect_module({"host": "https://127.0.0.1:1", "api_key": "secret", option: path})
    assert "c2VjcmV0" not in str(caught.value)


def test_a_user_without_a_home_folder_is_told_how_to_give_a_cluster(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(_path: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", no_home)
    with pytest.raises(ConfigurationError, match="no cluster given"):
        connect_module({})


def refuse_to_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse what the system refuses in a folder without rights; root has all rights."""
    look = Path.stat

    def stat(path: Path, **options: t.Any) -> object:
        if path.name == "refused":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return look(path, **options)

    monkeypatch.setattr(Path, "stat", stat)


OLD_URLLIB3 = """
import sys
from types import ModuleType

old = ModuleType("urllib3")
old.__version__ = "1.26.20"
old.exceptions = ModuleType("urllib3.exceptions")
old.exceptions.HTTPError = type("HTTPError", (Exception,), {})
old.exceptions.SSLError = type("SSLError", (old.exceptions.HTTPError,), {})
sys.modules["urllib3"] = old if sys.argv[1] == "old" else None
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import ansible_connection, open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ConfigurationError

print(ansible_connection.IMPORT_ERRORS["urllib3 >= 2"])
try:
    open_transport.open_transport(user_agent="test", kubeconfig="/nowhere")
except ConfigurationError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("installed", "said"),
    [("old", "urllib3 1.26.20 is installed"), ("missing", "import of urllib3 halted")],
)
def test_an_urllib3_that_is_too_old_or_missing_is_named_with_what_to_install(installed: str, said: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", OLD_URLLIB3, installed], env={"PYTHONPATH": os.pathsep.join(sys.path)}, capture_output=True, text=True
    )
    assert answer.returncode == 0, answer.stderr
    by_module, by_service = answer.stdout.splitlines()
    assert said in by_module and said in by_service and "pip install --upgrade 'urllib3>=2'" in by_service


def test_a_module_names_an_urllib3_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[str] = []

    class Module:
        def __init__(self, **_options: t.Any) -> None:
            pass

        def fail_json(self, msg: str, **_result: t.Any) -> None:
            failed.append(msg)

    monkeypatch.setattr(ansible_connection, "_Module", Module)
    monkeypatch.setattr(ansible_connection, "IMPORT_ERRORS", {**ansible_connection.IMPORT_ERRORS, "urllib3 >= 2": "too old"})
    ansible_connection.make_module({})
    assert len(failed) == 1 and "(urllib3 >= 2)" in failed[0] and "kubernetes msgspec 'urllib3>=2'" in failed[0]
