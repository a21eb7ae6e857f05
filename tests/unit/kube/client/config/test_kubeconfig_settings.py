# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubeconfigs become the settings that the kubernetes client would use, and errors hold no secret."""

from __future__ import annotations

import base64
import copy
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config import kubeconfig_settings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.connection_settings import ConnectionSettings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.files import ConnectionSettingsError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.kubeconfig_settings import (
    UnsupportedLoginError,
    context_of_kubeconfig,
    current_contexts,
    settings_of_kubeconfig,
    settings_of_pod,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.kubeconfig_source import Source
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.kubernetes_client import settings_by_client
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.yaml_text import load_yaml
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_kube_config, load_kube_config_from_dict
from oauthlib.oauth2 import OAuth2Error
from urllib3.exceptions import MaxRetryError

Json = dict[str, t.Any]
SECRET = "geheim-0123456789"


def kubeconfig(cluster: Json | None = None, user: Json | None = None) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "lab",
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "me"}}],
        "clusters": [{"name": "lab", "cluster": {"server": "https://127.0.0.1:6443", **(cluster or {})}}],
        "users": [{"name": "me", "user": user or {}}],
    }


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def content(pem: bytes | Path | None) -> bytes | None:
    return pem.read_bytes() if isinstance(pem, Path) else pem


def comparable(settings: ConnectionSettings) -> dict[str, t.Any]:
    return {
        "server": settings.server,
        "authorization": settings.authorization(),
        "ca": content(settings.ca),
        "certificate": content(settings.client_certificate),
        "key": content(settings.client_key),
        "verify": settings.verify,
        "tls_server_name": settings.tls_server_name,
        "proxy": settings.proxy,
    }


def of_client(source: Source) -> ConnectionSettings:
    """Return the settings that the kubernetes client reads."""
    configuration = Configuration()
    # Older versions need a current context in the first file.
    options: Json = {"context": context_of_kubeconfig(source).name, "client_configuration": configuration, "persist_config": False}
    if isinstance(source.kubeconfig, dict):
        load_kube_config_from_dict(source.kubeconfig, **options)
    else:
        load_kube_config(str(source.kubeconfig), **options)
    (authorization,) = [one["value"] for one in configuration.auth_settings().values()] or [""]
    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    ca, certificate, key = (Path(one) if one else None for one in files)
    return ConnectionSettings(
        configuration.host,
        authorization=lambda: authorization or "",
        ca=ca,
        client_certificate=certificate,
        client_key=key,
        verify=configuration.verify_ssl,
    )


UNDERSTOOD = [
    kubeconfig(user={"token": SECRET}),
    kubeconfig({"server": "https://127.0.0.1:6443/"}, {"token": SECRET}),
    kubeconfig({"server": "https://example.org/k8s/clusters/c-1/"}, {"token": SECRET}),
    kubeconfig({"server": "http://127.0.0.1:8080", "certificate-authority-data": b64("ca")}),
    kubeconfig({"certificate-authority-data": b64("ca")}, {"client-certificate-data": b64("cert"), "client-key-data": b64("key")}),
    kubeconfig({"certificate-authority": "ca.pem"}, {"client-certificate": "cert.pem", "client-key": "key.pem"}),
    kubeconfig({"certificate-authority": "ca.pem", "certificate-authority-data": b64("other")}, {"tokenFile": "token"}),
    kubeconfig({"insecure-skip-tls-verify": True}, {"username": "u", "password": SECRET}),
    kubeconfig(user={"token": SECRET, "username": "u", "password": SECRET, "exec": {"command": "false"}}),
]


@pytest.mark.parametrize("given", UNDERSTOOD)
@pytest.mark.parametrize("as_dict", [False, True])
def test_settings_are_those_of_the_kubernetes_client(given: Json, as_dict: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("ca.pem", "cert.pem", "key.pem", "token"):
        (tmp_path / name).write_text(name)
    (tmp_path / "config").write_text(yaml.safe_dump(given))
    monkeypatch.chdir(tmp_path)
    source = Source(copy.deepcopy(given) if as_dict else str(tmp_path / "config"))
    assert comparable(settings_of_kubeconfig(source)) == comparable(of_client(source))


@pytest.mark.parametrize("read", [settings_of_kubeconfig, lambda source: settings_by_client(source, persist=False)])
def test_settings_that_older_kubernetes_clients_do_not_read(read: t.Callable[[Source], ConnectionSettings]) -> None:
    cluster = {"insecure-skip-tls-verify": False, "tls-server-name": "kubernetes", "proxy-url": "http://proxy:3128"}
    settings = read(Source(kubeconfig(cluster, {"token": SECRET})))
    assert (settings.tls_server_name, settings.proxy, settings.verify) == ("kubernetes", "http://proxy:3128", True)


@pytest.mark.parametrize(
    ("user", "token"),
    [
        ({"token": SECRET, "tokenFile": "token"}, "of the file"),
        ({"token": "", "tokenFile": "token"}, "of the file"),
        ({"token": None, "tokenFile": "token"}, "of the file"),
        ({"token": SECRET, "tokenFile": "nowhere"}, SECRET),
        ({"token": SECRET, "tokenFile": "empty"}, SECRET),
        ({"token": SECRET, "tokenFile": ""}, SECRET),
    ],
)
def test_the_token_in_a_file_counts_before_the_token_beside_it(user: Json, token: str, tmp_path: Path) -> None:
    """``tests/integration/kube/client/test_kubeconfigs.py`` asks kubectl. The kubernetes client would take the token in the kubeconfig."""
    (tmp_path / "token").write_text("of the file\n")
    (tmp_path / "empty").touch()
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig(user=user)))
    assert settings_of_kubeconfig(Source(str(tmp_path / "config"))).authorization() == f"Bearer {token}"


@pytest.mark.parametrize("empty", ["", None])
def test_an_empty_key_does_not_hide_the_file_beside_it(empty: str | None, tmp_path: Path) -> None:
    """kubectl is asked by the same integration test. The kubernetes client would have no certificates."""
    keys = ("certificate-authority", "client-certificate", "client-key")
    for key in keys:
        (tmp_path / key).write_text(key)
    cluster, *user = ({key: key, f"{key}-data": empty} for key in keys)
    (tmp_path / "config").write_text(yaml.safe_dump(kubeconfig(cluster, user[0] | user[1])))
    settings = settings_of_kubeconfig(Source(str(tmp_path / "config")))
    assert (settings.ca, settings.client_certificate, settings.client_key) == tuple(tmp_path / key for key in keys)


@pytest.mark.parametrize("user", [{"username": "me"}, {"username": "me", "password": ""}])
def test_a_user_name_without_a_password_is_sent(user: Json) -> None:
    assert settings_of_kubeconfig(Source(kubeconfig(user=user))).authorization() == f"Basic {b64('me:')}"


def test_several_files_are_merged_as_the_kubernetes_client_does_it(tmp_path: Path) -> None:
    first, second, missing = tmp_path / "a" / "config", tmp_path / "b" / "config", tmp_path / "c" / "config"
    given = kubeconfig({"certificate-authority": "ca.pem"}, {"tokenFile": "token"})
    for file, parts in ((first, {"contexts": given["contexts"], "users": given["users"]}), (second, given)):
        file.parent.mkdir()
        (file.parent / "ca.pem").write_text(f"ca in {file.parent.name}")
        (file.parent / "token").write_text(f"token in {file.parent.name}")
        file.write_text(yaml.safe_dump(parts))
    source = Source(f"{missing}:{first}:{second}")
    settings = settings_of_kubeconfig(source)
    assert comparable(settings) == comparable(of_client(source))
    assert (content(settings.ca), settings.authorization()) == (b"ca in b", "Bearer token in a")


def test_the_first_of_several_current_contexts_counts_also_for_the_login_of_the_kubernetes_client(tmp_path: Path) -> None:
    first, second, empty = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    first.write_text(yaml.safe_dump(kubeconfig({"server": "https://first:6443"}, {"token": SECRET})))
    second.write_text(yaml.safe_dump(kubeconfig({"server": "https://second:6443"})).replace("lab", "other"))
    empty.touch()
    source = Source(f"{empty}:{first}:{second}")
    assert settings_of_kubeconfig(source).server == "https://first:6443"
    assert context_of_kubeconfig(source).name == "lab" and current_contexts(source) == ("lab", "other")
    assert settings_by_client(Source(f"{first}:{second}"), persist=False).server == "https://first:6443"


@pytest.mark.parametrize(
    "user",
    [
        {"exec": {"command": "login"}},
        {"auth-provider": {"name": "oidc"}},
        {"auth-provider": {"name": "other"}, "token": SECRET},
    ],
)
def test_plugins_and_providers_are_left_to_the_kubernetes_client(user: Json) -> None:
    with pytest.raises(UnsupportedLoginError):
        settings_of_kubeconfig(Source(kubeconfig(user=user)))


ACTING_AS = {"as": "ann", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"team/x": ["1"]}}
IMPERSONATION = (
    ("Impersonate-User", "ann"),
    ("Impersonate-Uid", "7"),
    ("Impersonate-Group", "a"),
    ("Impersonate-Group", "b"),
    ("Impersonate-Extra-team%2Fx", "1"),
)


def token_that_does_not_expire() -> str:
    """A JSON web token of the year 2100, without a signature."""
    return ".".join(b64(text).rstrip("=") for text in ('{"alg": "none"}', '{"exp": 4102444800}', "signature"))


def test_a_plugin_is_run_by_the_kubernetes_client(tmp_path: Path) -> None:
    plugin = tmp_path / "login"
    status = f'{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {{"token": "{SECRET}"}}}}'
    plugin.write_text(f"#!/bin/sh\necho '{status}'\n")
    plugin.chmod(0o755)
    user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}}
    settings = settings_by_client(Source(kubeconfig(user={**user, **ACTING_AS})), persist=False)
    assert settings.authorization() == f"Bearer {SECRET}"
    assert settings.headers == IMPERSONATION


def test_a_user_of_a_provider_acts_as_another_one() -> None:
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": token_that_does_not_expire()}}, **ACTING_AS}
    assert settings_by_client(Source(kubeconfig(user=user)), persist=False).headers == IMPERSONATION


def test_a_provider_that_fails_shows_no_secret() -> None:
    user = {"auth-provider": {"name": "oidc", "config": {"client-secret": SECRET}}}
    with pytest.raises(ConnectionSettingsError) as caught:
        settings_by_client(Source(kubeconfig(user=user)), persist=False)
    assert SECRET not in str(caught.value) and caught.value.__suppress_context__


def test_a_provider_that_cannot_be_reached_is_an_error_of_the_settings_without_a_secret() -> None:
    expired = ".".join(b64(text).rstrip("=") for text in ('{"alg": "none"}', '{"exp": 1}', SECRET))
    config = {
        "id-token": expired,
        "refresh-token": SECRET,
        "client-id": "me",
        "client-secret": SECRET,
        "idp-issuer-url": "https://127.0.0.1:1",
    }
    with pytest.raises(ConnectionSettingsError, match="auth-provider failed") as caught:
        settings_by_client(Source(kubeconfig(user={"auth-provider": {"name": "oidc", "config": config}})), persist=False)
    assert SECRET not in str(caught.value) and caught.value.__suppress_context__


@pytest.mark.parametrize("error", [OAuth2Error(SECRET), ConfigException(SECRET), KeyError(SECRET), MaxRetryError(None, SECRET)])
def test_a_token_that_cannot_be_renewed_is_an_error_of_the_settings_without_a_secret(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = {"auth-provider": {"name": "oidc", "config": {"id-token": token_that_does_not_expire()}}}
    settings = settings_by_client(Source(kubeconfig(user=user)), persist=False)
    assert settings.authorization().startswith("Bearer ")

    def fail(_configuration: object) -> None:
        raise error

    monkeypatch.setattr("kubernetes.client.Configuration.auth_settings", fail)
    with pytest.raises(ConnectionSettingsError, match="auth-provider failed") as caught:
        settings.authorization()
    assert SECRET not in str(caught.value) and caught.value.__suppress_context__


def test_the_user_that_is_acted_as_is_sent() -> None:
    user = {"token": SECRET, **ACTING_AS}
    assert settings_of_kubeconfig(Source(kubeconfig(user=user))).headers == IMPERSONATION


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({**kubeconfig(), "users": [{"name": "me", "token": SECRET, "user": None}, {"token": SECRET}]}, "entry 2 of users has no name"),
        ({**kubeconfig(), "users": {"me": {"token": SECRET}}}, "users is not a list"),
        ({**kubeconfig(), "users": [{"name": "me", "user": {"token": SECRET}}] * 2}, "users has two entries with the name me"),
        ({**kubeconfig(), "users": [{"name": "me", "user": SECRET}]}, "user of the entry me of users is not a mapping"),
        ({**kubeconfig(), "users": [{"name": "other", "user": {"token": SECRET}}]}, "there is no user me in it"),
        (kubeconfig(user={"token": [SECRET]}), "token of the user me is not a text"),
        (kubeconfig(user={"client-certificate-data": SECRET + "!"}), "client-certificate-data of the user me is not base64"),
        (kubeconfig(user={"tokenFile": "/nowhere"}), "tokenFile of the user me names the file /nowhere, which does not exist"),
        (kubeconfig({"certificate-authority-data": 42}), "certificate-authority-data of the cluster lab is not a text"),
        (kubeconfig({"insecure-skip-tls-verify": "no"}), "insecure-skip-tls-verify of the cluster lab is neither true nor false"),
    ],
)
def test_an_error_names_the_entry_and_shows_no_secret(given: Json, words: str) -> None:
    with pytest.raises(ConnectionSettingsError) as caught:
        settings_of_kubeconfig(Source(given))
    assert words in str(caught.value) and SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "text", [f"token: *{SECRET}", f"token: !{SECRET} x", f"users: [token: {SECRET}\n  %", f"token: {SECRET}\n\t- x: ]"]
)
def test_a_file_that_is_no_yaml_shows_no_secret(text: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ConnectionSettingsError) as caught:
        settings_of_kubeconfig(Source(str(tmp_path / "config")))
    assert "not a YAML document: line " in str(caught.value) and SECRET not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")])
def test_a_pod_uses_its_service_account(host: str, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig_settings, "SERVICE_ACCOUNT", tmp_path)
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    assert settings_of_pod(environment) is None
    (tmp_path / "token").write_text(f"{SECRET}\n")
    (tmp_path / "ca.crt").write_text("ca")
    assert settings_of_pod({}) is None
    settings = settings_of_pod(environment)
    assert settings is not None
    assert (settings.server, settings.authorization(), settings.ca) == (server, f"Bearer {SECRET}", b"ca")


def test_the_representation_of_settings_shows_no_secret() -> None:
    user = {"token": SECRET, "client-certificate-data": b64(SECRET), "client-key-data": b64(SECRET)}
    assert SECRET not in repr(settings_of_kubeconfig(Source(kubeconfig({"certificate-authority-data": b64(SECRET)}, user))))


@pytest.mark.parametrize("value", ['!!int ""', '!!float ""', "!!bool x", "!!timestamp x", "2024-13-45", "9" * 5000])
def test_a_value_that_yaml_cannot_convert_is_an_error(value: str) -> None:
    with pytest.raises(ConnectionSettingsError, match="a value that YAML does not allow"):
        load_yaml(f"a: {value}".encode())
