# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options, variables and kubeconfig give one connection, in kubernetes.core's order."""

from __future__ import annotations

import base64
import socket
import threading
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config import kubeconfig_settings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.connection_options import given_options
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.connection_settings import ConnectionSettings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.files import ConnectionSettingsError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.connection import (
    Connection,
    HttpError,
    bypasses_proxy,
)

SERVER = "https://127.0.0.1:6443"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a kubeconfig; nothing else says where the cluster is."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    contexts = [{"name": name, "context": {"cluster": name, "user": name}} for name in ("one", "two")]
    clusters = [{"name": name, "cluster": {"server": f"https://{name}:6443"}} for name in ("one", "two")]
    users = [{"name": name, "user": {"token": name}} for name in ("one", "two")]
    (tmp_path / ".kube").mkdir()
    content = {"current-context": "one", "contexts": contexts, "clusters": clusters, "users": users}
    (tmp_path / ".kube" / "config").write_text(yaml.safe_dump(content))
    return tmp_path


def settings(params: dict[str, t.Any], **environment: str) -> ConnectionSettings:
    return given_options(params, environment).settings()


def test_the_default_kubeconfig_is_used_by_its_context(home: Path) -> None:
    assert settings({}).server == "https://one:6443"
    assert settings({"context": "two"}).authorization() == "Bearer two"
    assert settings({}, K8S_AUTH_CONTEXT="two").authorization() == "Bearer two"
    assert settings({"context": "one"}, K8S_AUTH_CONTEXT="two").authorization() == "Bearer one"


@pytest.mark.parametrize(
    ("params", "line"),
    [
        ({}, "one (context one, https://one:6443)"),
        ({"context": "two"}, "two (context two, https://two:6443)"),
        ({"host": "https://me:secret@three:6443"}, "https://three:6443 (context one)"),
        ({"host": "https://me:secret@three:6443", "api_key": "x"}, "https://three:6443"),
    ],
)
def test_the_cluster_has_its_names_in_the_kubeconfig_and_the_server_without_a_login(
    home: Path, params: dict[str, t.Any], line: str
) -> None:
    assert settings(params).identity.line == line


def test_the_service_account_of_the_pod_comes_before_the_default_kubeconfig(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig_settings, "SERVICE_ACCOUNT", home)
    (home / "token").write_text("pod")
    (home / "ca.crt").write_text("ca")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert settings({}).authorization() == "Bearer pod"
    assert settings({}).identity == ("https://10.0.0.1:443", "", "https://10.0.0.1:443")
    assert settings({"context": "two"}).authorization() == "Bearer two"
    assert settings({"host": SERVER, "api_key": "given"}).server == SERVER


@pytest.mark.parametrize(
    ("params", "authorization"),
    [
        ({"api_key": "a"}, "Bearer a"),
        ({"username": "u", "password": "p"}, "Basic " + base64.b64encode(b"u:p").decode()),
    ],
)
def test_a_host_with_credentials_needs_no_kubeconfig(params: dict[str, str], authorization: str, home: Path) -> None:
    (home / ".kube" / "config").unlink()
    found = settings({"host": f"{SERVER}/", **params})
    assert (found.server, found.authorization()) == (SERVER, authorization)
    variables = {f"K8S_AUTH_{name.upper()}": value for name, value in {"host": SERVER, **params}.items()}
    assert settings({}, **variables).authorization() == authorization


def test_kubeconfigs_with_different_current_contexts_need_the_option_context(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl would take the first of them, and kubernetes.core the last."""
    content = yaml.safe_load((home / ".kube" / "config").read_text())
    for name in ("one", "two"):
        (home / name).write_text(yaml.safe_dump({**content, "current-context": name}))
    files = f"{home / 'one'}:{home / 'two'}"
    with pytest.raises(ConnectionSettingsError, match=r"current contexts one and two, .* give the option context"):
        settings({"kubeconfig": files})
    monkeypatch.setenv("KUBECONFIG", files)
    with pytest.raises(ConnectionSettingsError, match="current contexts one and two"):
        settings({})
    assert settings({"context": "two"}).server == "https://two:6443"
    assert settings({"kubeconfig": f"{home / 'one'}:{home / 'one'}"}).server == "https://one:6443"


def test_a_host_without_credentials_says_what_is_missing(home: Path) -> None:
    (home / ".kube" / "config").unlink()
    with pytest.raises(ConnectionSettingsError, match="host is given without credentials"):
        settings({"host": SERVER})


def test_options_replace_what_the_kubeconfig_says(home: Path) -> None:
    files = {name: home / f"{name}.pem" for name in ("ca_cert", "client_cert", "client_key")}
    for file in files.values():
        file.write_text("x")
    params = {name: str(file) for name, file in files.items()}
    found = settings({**params, "host": SERVER, "validate_certs": False, "impersonate_user": "ann", "impersonate_groups": ["a", "b"]})
    assert (found.server, found.verify) == (SERVER, False)
    assert (found.ca, found.client_certificate, found.client_key) == tuple(files.values())
    assert found.headers == (("Impersonate-User", "ann"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b"))


def test_both_names_of_a_variable_count(home: Path) -> None:
    (home / "ca").write_text("x")
    assert settings({}, K8S_AUTH_VERIFY_SSL="no").verify is False
    assert settings({}, K8S_AUTH_VALIDATE_CERTS="False").verify is False
    assert settings({}, K8S_AUTH_SSL_CA_CERT=str(home / "ca")).ca == home / "ca"
    assert settings({}, K8S_AUTH_IMPERSONATE_GROUPS="a,b").headers == (("Impersonate-Group", "a"), ("Impersonate-Group", "b"))


@pytest.mark.parametrize("option", ["ca_cert", "client_cert", "client_key"])
def test_a_file_that_does_not_exist_is_named(option: str, home: Path) -> None:
    with pytest.raises(ConnectionSettingsError, match=f"{option} names the file /nowhere/x, which does not exist"):
        settings({option: "/nowhere/x"})


def test_the_proxy_comes_from_the_option_or_from_the_usual_variables(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://usual:3128")
    monkeypatch.setenv("NO_PROXY", "example.org")
    assert (settings({}).proxy, settings({}).no_proxy.split(",")[0]) == ("http://usual:3128", "example.org")
    assert settings({"proxy": "http://own:3128"}).proxy == "http://own:3128"


def test_no_proxy_of_the_environment_applies_to_every_proxy(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "example.org")
    found = settings({"proxy": "http://own:3128"})
    assert (found.proxy, found.no_proxy) == ("http://own:3128", "example.org")
    assert settings({"proxy": "http://own:3128", "no_proxy": "other.org"}).no_proxy == "other.org"


@pytest.mark.parametrize(
    ("host", "direct"),
    [("localhost", True), ("127.0.0.1", True), ("127.1.2.3", True), ("[::1]", True), ("127.0.0.1.example.org", False), ("10.0.0.1", False)],
)
@pytest.mark.parametrize("no_proxy", ["", "example.com"])
def test_only_a_proxy_that_is_set_for_the_cluster_is_used_for_this_machine(
    host: str, direct: bool, no_proxy: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://usual:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    login = {"host": f"https://{host}:6443", "api_key": "x"}
    usual, own = settings(login), settings({**login, "proxy": "http://own:3128"})
    assert bypasses_proxy(usual.server, usual.no_proxy) is direct
    assert not bypasses_proxy(own.server, own.no_proxy)


def test_the_proxy_for_all_schemes_counts_where_there_is_none_for_the_scheme(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://any:3128")
    assert settings({}).proxy == "http://any:3128"
    monkeypatch.setenv("HTTPS_PROXY", "http://usual:3128")
    assert settings({}).proxy == "http://usual:3128"


@pytest.mark.parametrize(
    ("no_proxy", "expected"),
    [
        ("", False),
        ("*", True),
        ("api.example.org", True),
        (".example.org", True),
        ("example.org:6443", True),
        ("other.org, EXAMPLE.org", True),
        ("ample.org", False),
        ("10.0.0.0/8", False),
    ],
)
def test_hosts_that_are_reached_without_the_proxy(no_proxy: str, expected: bool) -> None:
    assert bypasses_proxy("https://api.example.org:6443", no_proxy) is expected


def test_networks_that_are_reached_without_the_proxy() -> None:
    assert bypasses_proxy("https://10.1.2.3:6443", "10.0.0.0/8") and not bypasses_proxy("https://11.1.2.3:6443", "10.0.0.0/8")
    assert bypasses_proxy("https://[fd00::1]:6443", "fd00::/8")


@pytest.mark.parametrize(
    ("proxy", "headers"),
    [
        ("http://u:p%40ss@127.0.0.1:PORT", {}),
        ("http://127.0.0.1:PORT", {"proxy_basic_auth": "u:p@ss"}),
        ("http://u:p%40ss@127.0.0.1:PORT", {"proxy_basic_auth": None, "basic_auth": None, "user_agent": None}),
    ],
    ids=["login in the address", "login in proxy_headers", "headers that are not given"],
)
def test_a_proxy_is_asked_for_the_server_with_its_login_and_an_error_does_not_show_it(proxy: str, headers: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        asked: list[bytes] = []

        def refuse() -> None:
            connection, _address = listener.accept()
            with connection:
                asked.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")

        thread = threading.Thread(target=refuse, daemon=True)
        thread.start()
        address = proxy.replace("PORT", str(listener.getsockname()[1]))
        found = ConnectionSettings("https://api.example.org:6443", proxy=address, proxy_headers=headers)
        with pytest.raises(HttpError) as caught:
            Connection(lambda: found).send("GET", "/", query=(), headers=(), body=None, timeouts=(10, 10))
        thread.join(10)
    assert asked[0].startswith(b"CONNECT api.example.org:6443 ")
    assert b"proxy-authorization: basic " + base64.b64encode(b"u:p@ss").lower() in asked[0].lower()
    assert "p@ss" not in repr(caught.value) and "p%40ss" not in repr(caught.value)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (ConnectionSettings("api.example.org:6443"), "the server is not a URL"),
        (ConnectionSettings("ftp://x"), "the server is not a URL"),
        (ConnectionSettings("https://u:geheim@x"), "URL has a user name"),
        (ConnectionSettings("https://x", ca=b"geheim"), "the certificate authority is not a certificate"),
        (ConnectionSettings("https://x", client_certificate=b"geheim", client_key=b"geheim"), "are not a pair"),
        (ConnectionSettings("https://x", authorization=lambda: "Bearer geheim\n"), "no HTTP header may have"),
        (ConnectionSettings("https://x", authorization=lambda: "Bearer geheim\u0142"), "no HTTP header may have"),
        (ConnectionSettings("https://x", proxy="geheim"), "the proxy is not a URL"),
        (ConnectionSettings("https://x", proxy="http://u:geheim@a b:3128"), "the proxy is not a URL"),
        (ConnectionSettings("https://x", proxy="http://u:geheim%C5%82@p:3128"), "password for the proxy"),
        (ConnectionSettings("https://x", proxy="http://p:3128", proxy_headers={"basic_auth": "u:geheim\u0142"}), "not in Latin-1"),
        (ConnectionSettings("https://x", proxy="http://p:3128", proxy_headers={"user_agent": "geheim\u0142"}), "no header may have"),
    ],
)
def test_what_cannot_be_used_is_named_without_its_value(wrong: ConnectionSettings, words: str) -> None:
    with pytest.raises(ConnectionSettingsError) as caught:
        Connection(lambda: wrong)
    assert words in str(caught.value) and "geheim" not in str(caught.value)
    assert caught.value.__cause__ is None and (caught.value.__context__ is None or caught.value.__suppress_context__)
