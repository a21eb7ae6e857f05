# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The settings of the sources: the mapping ``sources`` of FILE. No setting contains a secret, only paths of files with secrets."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ....plugins.module_utils.model.values.shown import shown_value
from ..settings_errors import ErrorList
from .prometheus.promql import is_selector
from .settings_section import Section

NAME, HOST, ADDRESS, NODE_LABEL, UNAME, SHORT_NAME = NODE_RULES = ("name", "host", "address", "node_label", "uname", "short_name")
"""The rules that map a series to a node, in their default order. ``node_mapping.py`` explains them."""

MOST_SCRAPED_NODES = 200
"""The largest cluster that is scraped directly. A larger one needs a Prometheus, which is made for this."""

MIB = 1024 * 1024
INDENT = "; a setting of a source has more spaces before it than the name of the source"
URLS_REMEDY = 'give the URL of each Prometheus server, such as urls: ["http://127.0.0.1:9090"]'
_LOGIN_KEYS = ("bearer_token_file", "basic_auth", "tls")


@dataclass(frozen=True)
class TlsSettings:
    """Trust and client certificate: paths of PEM files. Without ``ca_file`` the certificate authorities of the system are trusted.

    ``server_name``: the name in the server's certificate if it differs from the host in the URL.
    """

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    insecure_skip_verify: bool = False


@dataclass(frozen=True)
class LoginSettings:
    """Credentials of HTTP requests. The files are read again while the program runs, because tokens are renewed."""

    bearer_token_file: str = ""
    username: str = ""
    password_file: str = ""
    tls: TlsSettings = field(default_factory=TlsSettings)


@dataclass(frozen=True)
class PrometheusSettings:
    """The Prometheus servers. They are replicas with the same data, and one that answers is asked.

    ``node_label``: the label of a series that tells its node. ``node_rules``: the rules that map its value to a node, in order.
    ``selector``: label matchers of PromQL that every series of a metric must meet. It is not added to expressions. ``max_answer_bytes``: 0
    for a limit that grows with the number of nodes.
    """

    urls: tuple[str, ...]
    refresh_s: float = 15.0
    timeout_s: float = 5.0
    node_label: str = "instance"
    node_rules: tuple[str, ...] = NODE_RULES
    selector: str = ""
    max_answer_bytes: int = 0
    login: LoginSettings = field(default_factory=LoginSettings)


@dataclass(frozen=True)
class KubernetesSettings:
    """The API server. Without a kubeconfig it is the pod's service account, otherwise the same default as kubectl."""

    kubeconfig: str | None = None
    context: str | None = None


@dataclass(frozen=True)
class NodeExporterSettings:
    """The node_exporters that are scraped directly, at the InternalIP of each node."""

    port: int = 9100
    scheme: str = "http"
    path: str = "/metrics"
    refresh_s: float = 15.0
    timeout_s: float = 5.0
    max_nodes: int = MOST_SCRAPED_NODES
    max_answer_bytes: int = 8 * MIB
    login: LoginSettings = field(default_factory=LoginSettings)


@dataclass(frozen=True)
class SourceSettings:
    """The sources that are configured."""

    prometheus: PrometheusSettings | None = None
    kubernetes: KubernetesSettings | None = None
    node_exporter: NodeExporterSettings | None = None

    @property
    def refresh_s(self) -> float:
        """Return the seconds between two refreshes."""
        source = self.prometheus or self.node_exporter
        return source.refresh_s if source is not None else PrometheusSettings.refresh_s


def read_source_settings(mapping: Mapping[str, t.Any] | None) -> SourceSettings:
    """Return the checked settings. Raises SettingsErrors, which name each key, its value and the values that can be used."""
    errors = ErrorList()
    value = {} if mapping is None else mapping
    sources = Section(value, ("sources",), ("prometheus", "kubernetes", "node_exporter"), errors, remedy=INDENT)
    settings = SourceSettings(_prometheus(sources), _kubernetes(sources), _node_exporter(sources))
    if isinstance(value, Mapping) and "prometheus" in value and value["prometheus"] is None:
        errors.add(("sources", "prometheus"), f" has no urls: {URLS_REMEDY}")
    if "node_exporter" in sources and "prometheus" in sources:
        errors.add(sources.path, " has prometheus and node_exporter, which measure the same: keep one of them")
    elif "node_exporter" in sources and "kubernetes" not in sources:
        sources.refuse("node_exporter", "needs the addresses of the nodes: add sources.kubernetes, for example {}")
    errors.raise_any()
    return settings


def _prometheus(sources: Section) -> PrometheusSettings | None:
    keys = ("urls", "refresh_s", "timeout_s", "node_label", "node_rules", "selector", "max_answer_bytes")
    section = sources.section("prometheus", (*keys, *_LOGIN_KEYS))
    if section is None:
        return None
    if "urls" not in section:
        section.refuse("urls", f"is missing: {URLS_REMEDY}")
    rules = section.texts("node_rules", NODE_RULES)
    for rule in rules:
        if rule not in NODE_RULES:
            section.refuse("node_rules", f"has {shown_value(rule)}: the rules are {', '.join(NODE_RULES)}")
    settings = PrometheusSettings(
        urls=_urls(section),
        refresh_s=section.seconds("refresh_s", PrometheusSettings.refresh_s, 1),
        timeout_s=section.seconds("timeout_s", PrometheusSettings.timeout_s, 0.1, 60),
        node_label=section.text("node_label", PrometheusSettings.node_label),
        node_rules=rules,
        selector=section.text("selector"),
        max_answer_bytes=section.integer("max_answer_bytes", 0, 1024, 1024 * MIB) if "max_answer_bytes" in section else 0,
        login=_login(section),
    )
    if not _is_label_name(settings.node_label):
        section.refuse("node_label", f"is {shown_value(settings.node_label)}: the name of a Prometheus label is expected, such as instance")
    if settings.selector and not is_selector(settings.selector):
        section.refuse("selector", f'is {shown_value(settings.selector)}: label matchers without braces are expected, such as job="node"')
    return settings


def _kubernetes(sources: Section) -> KubernetesSettings | None:
    section = sources.section("kubernetes", ("kubeconfig", "context"))
    if section is None:
        return None
    return KubernetesSettings(section.text("kubeconfig") or None, section.text("context") or None)


def _node_exporter(sources: Section) -> NodeExporterSettings | None:
    keys = ("port", "scheme", "path", "refresh_s", "timeout_s", "max_nodes", "max_answer_bytes")
    section = sources.section("node_exporter", (*keys, *_LOGIN_KEYS))
    if section is None:
        return None
    path = section.text("path", NodeExporterSettings.path)
    if not path.startswith("/"):
        section.refuse("path", f"is {shown_value(path)}: it must begin with /")
    return NodeExporterSettings(
        port=section.integer("port", NodeExporterSettings.port, 1, 65535),
        scheme=section.choice("scheme", NodeExporterSettings.scheme, ("http", "https")),
        path=path,
        refresh_s=section.seconds("refresh_s", NodeExporterSettings.refresh_s, 1),
        timeout_s=section.seconds("timeout_s", NodeExporterSettings.timeout_s, 0.1, 60),
        max_nodes=section.integer("max_nodes", NodeExporterSettings.max_nodes, 1, MOST_SCRAPED_NODES),
        max_answer_bytes=section.integer("max_answer_bytes", NodeExporterSettings.max_answer_bytes, 1024, 64 * MIB),
        login=_login(section),
    )


def _login(section: Section) -> LoginSettings:
    basic = section.section("basic_auth", ("username", "password_file"))
    if basic is not None and "bearer_token_file" in section:
        section.errors.add(section.path, " has bearer_token_file and basic_auth: keep one of them")
    if basic is not None:
        for key in ("username", "password_file"):
            if key not in basic:
                basic.refuse(key, "is missing")
    return LoginSettings(
        bearer_token_file=section.text("bearer_token_file"),
        username=basic.text("username") if basic is not None else "",
        password_file=basic.text("password_file") if basic is not None else "",
        tls=_tls(section),
    )


def _tls(section: Section) -> TlsSettings:
    tls = section.section("tls", ("ca_file", "cert_file", "key_file", "server_name", "insecure_skip_verify"))
    if tls is None:
        return TlsSettings()
    settings = TlsSettings(
        ca_file=tls.text("ca_file"),
        cert_file=tls.text("cert_file"),
        key_file=tls.text("key_file"),
        server_name=tls.text("server_name"),
        insecure_skip_verify=tls.switch("insecure_skip_verify"),
    )
    if ("cert_file" in tls) != ("key_file" in tls):
        missing, given = ("key_file", "cert_file") if "cert_file" in tls else ("cert_file", "key_file")
        tls.refuse(missing, f"is missing: {given} is of use only together with it")
    return settings


def _urls(section: Section) -> tuple[str, ...]:
    """Return the URLs without a slash at their end. An error does not show a URL, because it may contain a password."""
    urls = section.texts("urls")
    for index, url in enumerate(urls):
        if problem := _url_problem(url):
            section.refuse("urls", f"has the entry [{index}], which {problem}")
    return tuple(url.rstrip("/") for url in urls)


def _url_problem(text: str) -> str:
    """Return the reason not to use a URL, or an empty text."""
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    else:
        if "@" in parts.netloc:
            return "has a user name in its URL: use basic_auth with a password_file"
    if not good or parts.query or parts.fragment:
        return "is not a URL such as http://127.0.0.1:9090"
    return ""


def _is_label_name(text: str) -> bool:
    return text.isascii() and text.isidentifier()
