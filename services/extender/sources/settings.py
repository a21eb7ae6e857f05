# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The settings of the sources: the mapping ``sources`` of FILE. No setting contains a secret, only paths of files with secrets."""

from __future__ import annotations

import re
import typing as t

from ....plugins.module_utils.model.codec import Struct
from ...common.kinds import Text, base_url, exact_seconds, one_of, text, whole

NAME, HOST, ADDRESS, NODE_LABEL, UNAME, SHORT_NAME = NODE_RULES = ("name", "host", "address", "node_label", "uname", "short_name")
"""The rules that map a series to a node, in their default order. ``prometheus/node_mapping.py`` explains them."""

MOST_SCRAPED_NODES = 200
"""The largest cluster that is scraped directly. A larger one needs a Prometheus, which is made for this."""

MIB = 1024 * 1024
DAY_S = 86_400
DEFAULT_REFRESH_S = 15.0

URLS_REMEDY = 'give the URL of each Prometheus server, such as urls: ["http://127.0.0.1:9090"]'


STRING = r'"(?:[^"\\\n]|\\[abfnrtv\\"])*"'
"""Matches a string of PromQL."""

_MATCHER = rf"[a-zA-Z_][a-zA-Z0-9_]*\s*(?:=~|!~|!=|=)\s*{STRING}"
MATCHERS = re.compile(rf"\s*{_MATCHER}\s*(?:,\s*{_MATCHER}\s*)*")
"""Matches label matchers of PromQL without braces, such as ``job="node-exporter"``."""


URL = base_url("it must be a URL such as http://127.0.0.1:9090", "it has a user name: use basic_auth with a password_file")
Refresh = t.Annotated[float, exact_seconds(1, DAY_S)]
Timeout = t.Annotated[float, exact_seconds(0.1, 60)]
NodeRule = t.Annotated[str, one_of(*NODE_RULES)]
LabelName = t.Annotated[
    str, text(is_good=lambda name: name.isascii() and name.isidentifier(), expected="it must be a label of Prometheus, such as instance")
]
Selector = t.Annotated[str, text(is_good=MATCHERS.fullmatch, expected='it must be label matchers without braces, such as job="node"')]
UrlPath = t.Annotated[str, text(is_good=lambda path: path.startswith("/"), expected="it must begin with /")]


class TlsSettings(Struct, frozen=True):
    """Trust and client certificate: paths of PEM files. Without ``ca_file`` the certificate authorities of the system are trusted.

    ``server_name``: the name in the server's certificate if it differs from the host in the URL.
    """

    ca_file: Text = ""
    cert_file: Text = ""
    key_file: Text = ""
    server_name: Text = ""
    insecure_skip_verify: bool = False

    def __post_init__(self) -> None:
        if bool(self.cert_file) != bool(self.key_file):
            missing, given = ("key_file", "cert_file") if self.cert_file else ("cert_file", "key_file")
            raise ValueError(f"{missing} is missing: {given} is of use only together with it")


class BasicAuth(Struct, frozen=True):
    """A user, and the file with its password."""

    username: Text
    password_file: Text


class LoginSettings(Struct, frozen=True, kw_only=True):
    """Credentials of HTTP requests. The files are read again while the program runs, because tokens are renewed."""

    bearer_token_file: Text = ""
    basic_auth: BasicAuth | None = None
    tls: TlsSettings = TlsSettings()

    def __post_init__(self) -> None:
        if self.bearer_token_file and self.basic_auth is not None:
            raise ValueError("bearer_token_file and basic_auth are two logins: keep one of them")


class PrometheusSettings(LoginSettings, frozen=True):
    """The Prometheus servers. They are replicas with the same data, and one that answers is asked.

    ``node_label``: the label of a series that tells its node. ``node_rules``: the rules that map its value to a node, in order.
    ``selector``: label matchers of PromQL that every series of a metric must meet. It is not added to expressions. ``max_answer_bytes``: 0
    for a limit that grows with the number of nodes.
    """

    urls: tuple[t.Annotated[str, URL], ...] = ()
    refresh_s: Refresh = DEFAULT_REFRESH_S
    timeout_s: Timeout = 5.0
    node_label: LabelName = "instance"
    node_rules: tuple[NodeRule, ...] = NODE_RULES
    selector: Selector = ""
    max_answer_bytes: t.Annotated[int, whole(1024, 1024 * MIB)] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.urls:
            raise ValueError(f"urls is missing: {URLS_REMEDY}")
        if not self.node_rules:
            raise ValueError(f"node_rules is an empty list: the rules are {', '.join(NODE_RULES)}")


class KubernetesSettings(Struct, frozen=True):
    """The API server. Without a kubeconfig it is the pod's service account, otherwise the same default as kubectl."""

    kubeconfig: Text | None = None
    context: Text | None = None


class NodeExporterSettings(LoginSettings, frozen=True, kw_only=True):
    """The node_exporters that are scraped directly, at the InternalIP of each node."""

    port: t.Annotated[int, whole(1, 65535)] = 9100
    scheme: t.Literal["http", "https"] = "http"
    path: UrlPath = "/metrics"
    refresh_s: Refresh = DEFAULT_REFRESH_S
    timeout_s: Timeout = 5.0
    max_nodes: t.Annotated[int, whole(1, MOST_SCRAPED_NODES)] = MOST_SCRAPED_NODES
    max_answer_bytes: t.Annotated[int, whole(1024, 64 * MIB)] = 8 * MIB


class SourceSettings(Struct, frozen=True):
    """The sources that are configured."""

    REMEDY = "; a setting of a source has more spaces before it than the name of the source"

    prometheus: PrometheusSettings | None = None
    kubernetes: KubernetesSettings | None = None
    node_exporter: NodeExporterSettings | None = None

    def __post_init__(self) -> None:
        if self.node_exporter is not None and self.prometheus is not None:
            raise ValueError("prometheus and node_exporter measure the same: keep one of them")
        if self.node_exporter is not None and self.kubernetes is None:
            raise ValueError("node_exporter needs the addresses of the nodes: add sources.kubernetes, for example {}")

    @property
    def refresh_s(self) -> float:
        """Return the seconds between two refreshes."""
        source = self.prometheus or self.node_exporter
        return source.refresh_s if source is not None else DEFAULT_REFRESH_S
