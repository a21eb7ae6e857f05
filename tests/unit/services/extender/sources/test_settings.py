# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The settings of the sources are checked, and an error names the key, the value and a better one."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.typed_settings import Mistakes, SettingsError
from ansible_collections.onprem.kube_scheduling.services.common.typed_settings import read as read_type
from ansible_collections.onprem.kube_scheduling.services.extender.sources.settings import (
    BasicAuth,
    KubernetesSettings,
    NodeExporterSettings,
    PrometheusSettings,
    SourceSettings,
    TlsSettings,
)

URLS = ["http://127.0.0.1:9090"]


def read(**sources: t.Any) -> SourceSettings:
    mistakes = Mistakes()
    settings = read_type(SourceSettings, sources, ("sources",), mistakes)
    if mistakes:
        raise SettingsError(*map(str, mistakes))
    assert settings is not None
    return settings


def test_defaults_are_those_of_the_design() -> None:
    assert read(prometheus={"urls": URLS}).prometheus == PrometheusSettings(
        urls=("http://127.0.0.1:9090",), refresh_s=15.0, timeout_s=5.0, node_label="instance"
    )
    assert read(kubernetes={}).kubernetes == KubernetesSettings(None, None)
    assert read() == SourceSettings()


def test_every_setting_is_read() -> None:
    given = {
        "urls": "https://one.example:9090/prometheus/",
        "refresh_s": "1m",
        "timeout_s": 2.5,
        "node_label": "node",
        "node_rules": ["name", "address"],
        "selector": 'job="node-exporter"',
        "max_answer_bytes": 4096,
        "basic_auth": {"username": "user", "password_file": "/run/password"},
        "tls": {"ca_file": "ca", "cert_file": "cert", "key_file": "key", "server_name": "one", "insecure_skip_verify": True},
    }
    assert read(prometheus=given).prometheus == PrometheusSettings(
        urls=("https://one.example:9090/prometheus",),
        refresh_s=60.0,
        timeout_s=2.5,
        node_label="node",
        node_rules=("name", "address"),
        selector='job="node-exporter"',
        max_answer_bytes=4096,
        basic_auth=BasicAuth("user", "/run/password"),
        tls=TlsSettings("ca", "cert", "key", "one", True),
    )
    settings = read(kubernetes={"kubeconfig": "k", "context": "c"}, node_exporter={"port": 8445, "scheme": "https", "max_nodes": 20})
    assert settings.kubernetes == KubernetesSettings("k", "c")
    assert settings.node_exporter == NodeExporterSettings(port=8445, scheme="https", max_nodes=20)


@pytest.mark.parametrize(
    ("sources", "parts"),
    [
        ({"prometeus": {}}, ("sources.prometeus", "the nearest is prometheus")),
        ({"prometheus": {"urls": URLS, "refresh": 5}}, ("sources.prometheus.refresh is not a setting", "refresh_s")),
        ({"prometheus": {}}, ("sources.prometheus.urls is missing", "http://127.0.0.1:9090")),
        ({"prometheus": {"urls": []}}, ("sources.prometheus.urls is missing",)),
        ({"prometheus": {"urls": [b"x"]}}, ("sources.prometheus.urls[0] is a value of the type bytes: it must be a URL",)),
        ({"prometheus": {"urls": [*URLS, "127.0.0.1:9090"]}}, (f"urls[{len(URLS)}] is a text: it must be a URL such as",)),
        ({"prometheus": {"urls": URLS, "timeout_s": 0}}, ("timeout_s is 0", "from 0.1 to 60 seconds")),
        ({"prometheus": {"urls": URLS, "refresh_s": "soon"}}, ("refresh_s is 'soon': it must be a time from 1 to",)),
        ({"prometheus": {"urls": URLS, "refresh_s": float("nan")}}, ("refresh_s is nan",)),
        ({"prometheus": {"urls": URLS, "node_label": "no-label"}}, ("node_label is 'no-label'",)),
        ({"prometheus": {"urls": URLS, "node_rules": ["guess"]}}, ("'guess'", "short_name")),
        ({"prometheus": {"urls": URLS, "selector": "{job='node'}"}}, ("selector is \"{job='node'}\"", "without braces", 'job="node"')),
        ({"prometheus": {"urls": URLS, "tls": {"cert_file": "c"}}}, ("tls.key_file is missing", "cert_file")),
        ({"prometheus": {"urls": URLS, "basic_auth": {"username": "u"}}}, ("basic_auth.password_file is missing",)),
        ({"prometheus": {"urls": URLS, "tls": {"insecure_skip_verify": "perhaps"}}}, ("it must be true or false",)),
        ({"prometheus": 5}, ("sources.prometheus is 5: it must be a mapping with ", "urls")),
        ({"node_exporter": {}}, ("add sources.kubernetes",)),
        ({"kubernetes": {}, "node_exporter": {"max_nodes": 500}}, ("max_nodes is 500", "from 1 to 200")),
        ({"kubernetes": {}, "node_exporter": {"scheme": "ftp"}}, ("scheme is 'ftp'", "http, https")),
        ({"kubernetes": {}, "node_exporter": {}, "prometheus": {"urls": URLS}}, ("keep one of them",)),
    ],
)
def test_a_wrong_setting_is_refused_by_name(sources: t.Any, parts: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError) as raised:
        read(**sources)
    text = str(raised.value)
    assert text.startswith("sources")
    assert not [part for part in parts if part not in text], text


def test_two_logins_are_refused() -> None:
    basic = {"username": "u", "password_file": "p"}
    with pytest.raises(SettingsError, match="bearer_token_file and basic_auth"):
        read(prometheus={"urls": URLS, "bearer_token_file": "t", "basic_auth": basic})


@pytest.mark.parametrize(
    "given",
    [{"urls": ["http://user:secret@one:9090"]}, {"urls": URLS, "basic_auth": {"password": "secret"}}, {"urls": ["secret"]}],
    ids=["a password in a URL", "a password in FILE", "a text in place of a URL"],
)
def test_an_error_shows_no_secret(given: t.Any) -> None:
    with pytest.raises(SettingsError) as raised:
        read(prometheus=given)
    assert "secret" not in str(raised.value)
