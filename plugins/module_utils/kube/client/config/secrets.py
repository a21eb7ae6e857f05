# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The secrets in the options of a connection, which must not appear in any result."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator, Mapping
from urllib.parse import unquote

SECRET_OPTIONS = ("api_key", "password", "proxy", "proxy_headers", "host")
"""Options that contain secrets. In an address only the login is a secret."""

ADDRESSES = ("proxy", "host", "proxy-url", "server")

SECRET_KEYS = frozenset([
    "access-token", "api_key", "certificate-authority-data", "client-certificate-data", "client-key-data", "client-secret", "id-token",
    "idp-certificate-authority-data", "password", "refresh-token", "secret", "token", "value",
])  # fmt: skip
"""Keys of a kubeconfig whose texts are secrets, also in a wrong place."""

SHOWN_KEYS = frozenset([
    "apiversion", "as", "as-groups", "as-uid", "client-certificate", "client-id", "client-key", "cmd-path", "command",
    "idp-certificate-authority", "idp-issuer-url", "installhint", "interactivemode", "name", "tokenfile", "username",
])  # fmt: skip
"""Keys of a user, in lower case, whose texts are not secrets.

A long text under any other key counts as a secret, because the key may be misspelled.
"""

LONG = 12
"""Characters from which on a text under an unknown key counts as a secret. Hiding shorter texts would hide parts of other words."""

_SECRET_VARIABLE = re.compile(r"(?i)auth|cred|key|pass|pin|secret|token")
"""Matches the name of a plugin's environment variable whose value is always a secret, also if it is short.

The value of another variable counts as a secret only if it is long. For example, hiding ``default``, the value of AWS_PROFILE, would hide
the namespace ``default``.
"""

MIN_SECRET_LENGTH = 4
"""Characters of the shortest part of a secret that is hidden separately. Hiding shorter parts would hide unrelated words."""


KUBECONFIG_VARIABLES = ("KUBECONFIG", "K8S_AUTH_KUBECONFIG")
"""Variables with the path of a kubeconfig. Their value is a secret if it is the content of a kubeconfig."""


def is_content(kubeconfig: str) -> bool:
    """Return whether the text is the content of a kubeconfig and not a path."""
    return "\n" in kubeconfig or "\r" in kubeconfig or kubeconfig.lstrip().startswith("{") or "apiVersion:" in kubeconfig


def secrets_in(params: t.Any, environment: Mapping[str, str]) -> set[str]:
    """Return the secrets of the options and of the variables K8S_AUTH_*, in every form that a message may contain."""
    given: list[str] = []
    for name in SECRET_OPTIONS:
        value = params.get(name) if isinstance(params, dict) else None
        for text in (*_texts(value), *(text for key, text in environment.items() if key.startswith(f"K8S_AUTH_{name.upper()}"))):
            given += _logins(text) if name in ADDRESSES else [text]
    kubeconfig = params.get("kubeconfig") if isinstance(params, dict) else None
    if isinstance(kubeconfig, dict):
        given += _of_kubeconfig(kubeconfig)
    texts = [kubeconfig, *(environment.get(name) for name in KUBECONFIG_VARIABLES)]
    given += [text for text in texts if isinstance(text, str) and is_content(text)]
    return {form for secret in given for form in _forms(secret)}


def _of_kubeconfig(node: t.Any, key: str = "", *, of_users: bool = False) -> Iterator[str]:
    if isinstance(node, Mapping):
        harmless = key == "env" and not _SECRET_VARIABLE.search(str(node.get("name", "")))
        for name, value in node.items():
            below = key if harmless and name == "value" else str(name).lower()
            yield from _of_kubeconfig(value, below, of_users=of_users or name == "users")
    elif isinstance(node, (list, tuple)):
        for value in node:
            yield from _of_kubeconfig(value, key, of_users=of_users)
    elif isinstance(node, str):
        if key in ADDRESSES:
            yield from _logins(node)
        elif key in SECRET_KEYS or (of_users and key not in SHOWN_KEYS and len(node) >= LONG):
            yield node


def _logins(address: str) -> list[str]:
    """Return the login and the password in an address, each as it is and URL-decoded."""
    login = address.rpartition("@")[0].rpartition("://")[2]
    password = login.partition(":")[2]
    return [text for text in (login, password, unquote(login), unquote(password)) if text]


def _texts(value: t.Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _forms(secret: str) -> Iterator[str]:
    """Return the secret, its lines, and its escaped form if that differs."""
    if secret.strip():
        yield secret
    for line in secret.splitlines():
        if len(line.strip()) >= MIN_SECRET_LENGTH:
            yield line.strip()
    escaped = repr(secret)[1:-1]
    if escaped != secret:
        yield escaped
