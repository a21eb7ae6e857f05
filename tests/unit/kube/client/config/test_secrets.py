# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The secrets among a module's options are found, and nothing else is taken for one."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.secrets import secrets_in

OIDC = {"client-secret": "cs", "id-token": "it", "client-id": "my-client-id"}
EXEC = {"command": "/usr/bin/login-plugin", "args": ["get"], "env": [{"name": "TOKEN_VARIABLE", "value": "ev"}]}
KUBECONFIG: dict[str, t.Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "lab-context-name",
    "contexts": [{"name": "lab-context-name", "context": {"cluster": "lab-cluster-name", "user": "lab-user-name"}}],
    "clusters": [
        {
            "name": "lab-cluster-name",
            "cluster": {"server": "https://api.example.org:6443", "proxy-url": "http://u:pr%40xy@p:1", "certificate-authority-data": "CA"},
            "extensions": [{"name": "cluster_info", "extension": {"provider": "minikube.example.org", "version": "v1.36.0"}}],
        }
    ],
    "users": [
        {"name": "lab-user-name", "user": {"token": "to", "client-key-data": "KEY", "client-certificate": "/etc/kubernetes/cert.pem"}},
        {"name": "oidc", "user": {"auth-provider": {"name": "oidc", "config": OIDC}}},
        {"name": "exec", "user": {"exec": EXEC}},
        {"name": "misspelt", "user": {"tokn": "a-long-token-here"}, "password": "pw"},
    ],
}  # fmt: skip


def test_the_secrets_of_a_kubeconfig_are_found_and_nothing_else() -> None:
    found = secrets_in({"kubeconfig": KUBECONFIG}, {})
    assert found == {"CA", "to", "KEY", "cs", "it", "ev", "a-long-token-here", "pw", "u:pr%40xy", "pr%40xy", "u:pr@xy", "pr@xy"}


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("AWS_PROFILE", "default", False),
        ("STAGE", "1", False),
        ("AWS_SECRET_ACCESS_KEY", "short", True),
        ("password", "short", True),
        ("LOGIN", "a-long-value-of-any-kind", True),
    ],
)
def test_a_short_variable_of_a_plugin_hides_no_word_of_a_result(name: str, value: str, is_secret: bool) -> None:
    """Otherwise the namespace ``default`` would be hidden in a list of workloads that the next task gets."""
    user = {"exec": {**EXEC, "env": [{"name": name, "value": value}]}}
    assert (value in secrets_in({"kubeconfig": {"users": [{"name": "me", "user": user}]}}, {})) is is_secret


@pytest.mark.parametrize(
    ("params", "environment", "expected"),
    [
        ({"api_key": "a"}, {"K8S_AUTH_API_KEY": "b"}, {"a", "b"}),
        ({"password": "a"}, {"K8S_AUTH_PASSWORD": "b"}, {"a", "b"}),
        ({"proxy_headers": {"basic_auth": "u:p"}}, {"K8S_AUTH_PROXY_HEADERS_BASIC_AUTH": "v:q"}, {"u:p", "v:q"}),
        ({"proxy": "http://u:p@proxy"}, {"K8S_AUTH_HOST": "https://api"}, {"u:p", "p"}),
        ({"kubeconfig": "/path/config", "context": "lab", "username": "me"}, {"PATH": "/bin"}, set()),
        (None, {}, set()),
    ],
)
def test_the_secrets_of_options_and_variables_are_found(params: t.Any, environment: dict[str, str], expected: set[str]) -> None:
    assert secrets_in(params, environment) == expected


def test_a_secret_of_several_lines_is_found_in_every_form_in_which_a_message_may_hold_it() -> None:
    assert secrets_in({"api_key": "first-line\nx\nlast-line"}, {}) == {
        "first-line\nx\nlast-line",
        "first-line\\nx\\nlast-line",
        "first-line",
        "last-line",
    }


@pytest.mark.parametrize("variable", ["KUBECONFIG", "K8S_AUTH_KUBECONFIG"])
def test_the_lines_of_a_kubeconfig_in_a_variable_of_a_path_are_secrets(variable: str) -> None:
    assert "token: abcdef" in secrets_in({}, {variable: "users:\n- user:\n    token: abcdef\n"})
    assert '{"token": "abcdef"}' in secrets_in({}, {variable: '{"token": "abcdef"}'})
    assert secrets_in({}, {variable: "/path/a:/path/b"}) == set()
