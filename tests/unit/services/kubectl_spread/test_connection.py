# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The servers that receive a login. The expected values are those of kubectl 1.32 and of client-go ``client_config.go``."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config import kubeconfig_settings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.connection_settings import ConnectionSettings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.files import ConnectionSettingsError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ConfigurationError
from ansible_collections.onprem.kube_scheduling.services.kubectl_spread.connection import find_target
from ansible_collections.onprem.kube_scheduling.services.kubectl_spread.flags import UsageError, parse_flags

PLAIN = "http://127.0.0.1:8001"

KUBECONFIG = f"""
apiVersion: v1
kind: Config
current-context: plain
clusters:
- {{name: plain, cluster: {{server: "{PLAIN}", certificate-authority-data: QQ==}}}}
- {{name: tls, cluster: {{server: "https://127.0.0.1:6443", certificate-authority-data: QQ==}}}}
- {{name: no-server, cluster: {{certificate-authority-data: QQ==}}}}
users:
- {{name: certificate, user: {{client-certificate-data: Qg==, client-key-data: Qw==, as: ann}}}}
- {{name: token, user: {{token: secret-token}}}}
- {{name: password, user: {{username: me, password: secret-password}}}}
- {{name: plugin, user: {{exec: {{apiVersion: client.authentication.k8s.io/v1, command: /nowhere, interactiveMode: Never}}}}}}
contexts:
- {{name: plain, context: {{cluster: plain, user: certificate}}}}
- {{name: plugin, context: {{cluster: tls, user: plugin}}}}
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    return {"KUBECONFIG": str(tmp_path / "kubeconfig")}


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a pod with a service account and without a kubeconfig."""
    for name, text in (("token", "pod-token"), ("ca.crt", "authority of the pod"), ("namespace", "shop")):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(kubeconfig_settings, "SERVICE_ACCOUNT", tmp_path)
    found = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443", "HOME": "/nowhere"}
    for name, value in found.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    return found


def settings(environment: dict[str, str], *flags: str) -> ConnectionSettings:
    return find_target(parse_flags(flags), environment).options.settings()


def login(settings: ConnectionSettings) -> tuple[object, ...]:
    return settings.authorization(), settings.client_certificate, settings.client_key


NOTHING = ("", None, None)


@pytest.mark.parametrize(
    "flags",
    [
        ["--user=token"],
        ["--user=password"],
        ["--user=plugin"],
        ["--context=plugin", "--cluster=plain"],
        ["--context=plugin", f"--server={PLAIN}"],
        ["--cluster=tls", "--user=token", f"--server={PLAIN}"],
        ["--cluster=tls", "--user=token", "--server=127.0.0.1:8001"],
        ["--cluster=tls", "--server=HTTP://127.0.0.1:8001"],
        ["--token=mine"],
        ["--username=me", "--password=mine"],
        ["--cluster=tls", f"--server={PLAIN}", "--token=mine"],
    ],
)
def test_a_server_without_tls_receives_no_login(environment: dict[str, str], flags: list[str]) -> None:
    assert login(settings(environment, *flags)) == NOTHING


def test_a_server_without_tls_receives_no_certificate_of_a_flag(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "pem").write_text("x")
    flags = [f"--{name}={tmp_path / 'pem'}" for name in ("client-certificate", "client-key")]
    assert login(settings(environment, *flags)) == NOTHING
    assert login(settings(environment, "--cluster=tls", *flags)) == ("", tmp_path / "pem", tmp_path / "pem")


def test_a_server_without_tls_receives_the_impersonation(environment: dict[str, str]) -> None:
    assert settings(environment).headers == (("Impersonate-User", "ann"),)


def test_a_server_with_tls_receives_the_login(environment: dict[str, str]) -> None:
    assert login(settings(environment, "--cluster=tls", "--user=token")) == ("Bearer secret-token", None, None)
    assert login(settings(environment, "--user=token", "--server=HTTPS://127.0.0.1")) == ("Bearer secret-token", None, None)
    assert login(settings(environment, "--cluster=tls", "--token=mine")) == ("Bearer mine", b"B", b"C")
    with pytest.raises(ConnectionSettingsError, match="auth-provider returned neither"):
        settings(environment, "--context=plugin")


@pytest.mark.parametrize("flags", [[], ["--cluster=no-server"], ["--token=mine"]])
def test_a_server_with_tls_in_place_of_one_without_keeps_the_authority_and_the_certificate(
    environment: dict[str, str], flags: list[str]
) -> None:
    found = settings(environment, "--server=https://real", *flags)
    assert (found.server, found.ca, found.client_certificate, found.client_key) == ("https://real", b"A", b"B", b"C")


def test_a_cluster_in_a_flag_does_not_hide_a_current_context_that_does_not_exist(environment: dict[str, str]) -> None:
    file = Path(environment["KUBECONFIG"])
    file.write_text(KUBECONFIG.replace("current-context: plain", "current-context: gone"))
    with pytest.raises(ConnectionSettingsError, match="there is no context gone in it; it has plain, plugin"):
        settings(environment, "--cluster=tls", "--user=token")
    file.write_text(KUBECONFIG.replace("current-context: plain", ""))
    assert settings(environment, "--cluster=tls", "--user=token").server == "https://127.0.0.1:6443"


def test_only_the_server_of_the_pod_receives_the_login_of_the_pod(pod: dict[str, str]) -> None:
    found = settings(pod)
    assert (found.server, found.authorization(), found.ca) == ("https://10.0.0.1:443", "Bearer pod-token", b"authority of the pod")
    assert settings(pod, "--token=mine").authorization() == "Bearer mine"
    other = settings(pod, "--server=https://other.example", "--token=mine")
    assert (other.server, other.authorization(), other.ca) == ("https://other.example", "Bearer mine", None)
    assert login(settings(pod, f"--server={PLAIN}")) == NOTHING
    with pytest.raises(UsageError, match="--server needs a login"):
        settings(pod, "--server=https://other.example")


NO_CLUSTER = {
    "nothing": "",
    "null": "apiVersion: v1\nkind: Config\nclusters: null\ncontexts: null\nusers: null\ncurrent-context: ''\n",
    "no current context": KUBECONFIG.replace("current-context: plain", ""),
    "no cluster of that name": KUBECONFIG.replace("{name: plain, cluster: {server", "{name: other, cluster: {server"),
}


@pytest.mark.parametrize("name", NO_CLUSTER)
@pytest.mark.parametrize("by_flag", [True, False])
def test_a_kubeconfig_without_a_cluster_leads_to_the_service_account_of_the_pod(
    pod: dict[str, str], tmp_path: Path, name: str, by_flag: bool
) -> None:
    """As with kubectl 1.36.3 in a mount namespace with the files of a service account."""
    file = tmp_path / "kubeconfig"
    file.write_text(NO_CLUSTER[name])
    flags, environment = ([f"--kubeconfig={file}"], pod) if by_flag else ([], {**pod, "KUBECONFIG": str(file)})
    target = find_target(parse_flags(flags), environment)
    assert (target.options.settings().identity.line, target.namespace) == ("https://10.0.0.1:443", "shop")
    assert target.options.settings().authorization() == "Bearer pod-token"
    assert settings(environment, *flags, "--token=mine").authorization() == "Bearer mine"
    with pytest.raises((ConfigurationError, ConnectionSettingsError), match="no context gone"):
        settings(pod, f"--kubeconfig={file}", "--context=gone")
    with pytest.raises(ConnectionSettingsError, match=r"no current-context|no cluster plain"):
        settings({"KUBECONFIG": str(file)})


def test_the_namespace_of_a_context_without_a_cluster_counts_in_a_pod(pod: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text("contexts: [{name: a, context: {namespace: own}}]\ncurrent-context: a\n")
    target = find_target(parse_flags([f"--kubeconfig={file}"]), pod)
    assert (target.namespace, target.options.settings().identity.context) == ("own", "")


def test_kubeconfigs_of_the_environment_that_do_not_exist_lead_to_the_service_account_of_the_pod(pod: dict[str, str]) -> None:
    assert settings({**pod, "KUBECONFIG": "/nowhere/a:/nowhere/b"}).identity.line == "https://10.0.0.1:443"
    with pytest.raises(ConfigurationError, match="there is no file /nowhere/a"):
        find_target(parse_flags(["--kubeconfig=/nowhere/a"]), pod)


def test_a_context_without_a_namespace_has_the_namespace_of_the_pod(pod: dict[str, str], environment: dict[str, str]) -> None:
    target = find_target(parse_flags([]), {**pod, **environment})
    assert (target.namespace, target.options.settings().server) == ("shop", PLAIN)
    assert find_target(parse_flags([]), environment).namespace == "default"


def test_another_server_does_not_change_the_namespace_of_the_pod(pod: dict[str, str]) -> None:
    assert find_target(parse_flags([f"--server={PLAIN}"]), pod).namespace == "shop"
