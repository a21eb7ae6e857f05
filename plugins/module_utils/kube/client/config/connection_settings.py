# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The settings of a connection to an API server. Their representation contains no secret."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ....model.cluster_identity import ClusterIdentity
from .authorization import Authorization, no_authorization
from .kubeconfig_source import without_login

Pem = t.Union[bytes, Path, None]
"""Certificates or a key: their bytes, the file that contains them, or None."""


def uses_tls(server: str) -> bool:
    """Return whether connections to this URL use TLS."""
    return server.lower().startswith("https://")


@dataclass(frozen=True)
class ConnectionSettings:
    """The settings of a connection. ``server`` is a URL.

    ``headers`` are sent with each request, and a name may occur several times.
    ``tls_server_name`` is the name in the server's certificate if it differs from the host in the URL. ``no_proxy`` is a comma-separated
    list of hosts for which ``proxy`` is not used. With ``limits_answers``, the time for data from the server is that for a whole answer.
    ``cluster`` and ``context`` are names in the kubeconfig. ``cluster`` is empty if the server is not that of an entry.
    """

    server: str
    authorization: Authorization = field(default=no_authorization, repr=False)
    headers: tuple[tuple[str, str], ...] = ()
    ca: Pem = field(default=None, repr=False)
    client_certificate: Pem = field(default=None, repr=False)
    client_key: Pem = field(default=None, repr=False)
    verify: bool = True
    tls_server_name: str = ""
    proxy: str = field(default="", repr=False)
    no_proxy: str = ""
    proxy_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    limits_answers: bool = False
    cluster: str = ""
    context: str = ""

    @property
    def has_login(self) -> bool:
        """Return whether there are credentials of a user."""
        return bool(self.authorization()) or self.client_certificate is not None

    @property
    def identity(self) -> ClusterIdentity:
        """Return the cluster for outputs."""
        server = without_login(self.server)
        return ClusterIdentity(self.cluster or server, self.context, server)
