# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Connection settings from kubeconfigs, and from the service account of a pod.

Files are merged as in kubectl: of several entries with the same name, and of several current contexts, the first is used. Errors name the
entry and the key, and never a value.
"""

from __future__ import annotations

import base64
import binascii
import typing as t
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from .authorization import Authorization, TokenFile, basic, bearer, no_authorization
from .connection_settings import ConnectionSettings, Pem, uses_tls
from .files import ConnectionSettingsError, exists, is_file, read_file, searched
from .kubeconfig_source import Source
from .yaml_text import load_yaml

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder that the kubelet mounts into each pod."""

Json = dict[str, t.Any]


class UnsupportedLoginError(Exception):
    """The kubeconfig's user logs in by a plugin or a provider. Only the kubernetes client supports these."""


class Entry(t.NamedTuple):
    """One entry of a kubeconfig. Relative paths start at ``folder``. ``kind`` and ``name`` are for messages."""

    kind: str
    name: str
    content: Json
    folder: Path

    def text(self, key: str) -> str:
        """Return the text of a key. It is empty if the key is absent."""
        value = self.content.get(key)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise ConnectionSettingsError(f"{key} of the {self.kind} {self.name} is not a text")
        return value

    def truth(self, key: str) -> bool:
        """Return the boolean of a key. It is false if the key is absent."""
        value = self.content.get(key)
        if value is not None and not isinstance(value, bool):
            raise ConnectionSettingsError(f"{key} of the {self.kind} {self.name} is neither true nor false")
        return bool(value)

    def file(self, key: str) -> t.Optional[Path]:
        """Return the path of a file, or None if the key is absent. Raises ConnectionSettingsError if the file does not exist."""
        name = self.text(key)
        if not name:
            return None
        path = self.folder / name
        if not is_file(path):
            raise ConnectionSettingsError(f"{key} of the {self.kind} {self.name} names the file {path}, which does not exist")
        return path

    def pem(self, key: str) -> Pem:
        """Return the decoded ``<key>-data`` if it is not empty, otherwise the file in ``<key>``."""
        data_key = f"{key}-data"
        text = "".join(self.text(data_key).split())
        if not text:
            return self.file(key)
        try:
            return base64.b64decode(text, validate=True) or None
        except (binascii.Error, ValueError):
            raise ConnectionSettingsError(f"{data_key} of the {self.kind} {self.name} is not base64") from None


def settings_of_kubeconfig(source: Source, *, server: str = "") -> ConnectionSettings:
    """Return the settings of the kubeconfig for its context. ``server`` replaces the server of the cluster.

    Raises ConnectionSettingsError and UnsupportedLoginError.
    """
    chosen = _chosen(_merged(source), source)
    return _settings(chosen, _authorization(chosen.user), server)


def settings_without_login(source: Source, *, server: str = "") -> ConnectionSettings:
    """Return the settings of the kubeconfig without its token or password, for a caller with another login.

    ``server`` replaces the server of the cluster. Raises ConnectionSettingsError.
    """
    return _settings(_chosen(_merged(source), source), no_authorization, server)


def impersonation(source: Source) -> tuple[tuple[str, str], ...]:
    """Return the impersonation headers of the kubeconfig's user. Raises ConnectionSettingsError."""
    return _impersonation(_chosen(_merged(source), source).user)


class Context(t.NamedTuple):
    """A context of a kubeconfig by its name. ``namespace`` is empty if it names none."""

    name: str
    namespace: str


def context_of_kubeconfig(source: Source) -> Context:
    """Return the context that the source names, or else the current one. Without a current one the name is empty.

    Raises ConnectionSettingsError.
    """
    merged = _merged(source)
    name = source.context or merged.current_context
    entry = merged.contexts.get(name)
    return Context(name, entry.text("namespace") if entry else "")


def names_no_cluster(source: Source) -> bool:
    """Return whether the kubeconfig has no current context, or no cluster for it. Raises ConnectionSettingsError.

    kubectl then uses the service account of its pod (client-go ``merged_client_builder.go``).
    """
    merged = _merged(source)
    context = merged.contexts.get(merged.current_context)
    if context is None:
        return not merged.current_context
    return context.text("cluster") not in merged.clusters


def current_contexts(source: Source) -> tuple[str, ...]:
    """Return the different current contexts of the files. kubectl takes the first. Raises ConnectionSettingsError."""
    return _merged(source).current_contexts


class KubeconfigNames(t.NamedTuple):
    """The names of the entries of a kubeconfig."""

    contexts: list[str]
    clusters: list[str]
    users: list[str]


def kubeconfig_names(source: Source) -> KubeconfigNames:
    """Return the names of the contexts, clusters and users. Raises ConnectionSettingsError."""
    merged = _merged(source)
    return KubeconfigNames(list(merged.contexts), list(merged.clusters), list(merged.users))


def namespace_of_pod() -> str:
    """Return the namespace of the pod in which the program runs, or an empty text."""
    file = SERVICE_ACCOUNT / "namespace"
    return read_file(file).decode(errors="replace").strip() if is_file(file) else ""


def is_in_pod(environment: Mapping[str, str]) -> bool:
    """Return whether the program runs in a pod with a service account."""
    files = (SERVICE_ACCOUNT / "token", SERVICE_ACCOUNT / "ca.crt")
    return all(environment.get(f"KUBERNETES_SERVICE_{name}") for name in ("HOST", "PORT")) and all(map(is_file, files))


def settings_of_pod(environment: Mapping[str, str]) -> t.Optional[ConnectionSettings]:
    """Return the settings of the pod's service account, or None outside of a pod."""
    if not is_in_pod(environment):
        return None
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"]
    token, ca = SERVICE_ACCOUNT / "token", SERVICE_ACCOUNT / "ca.crt"
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    return ConnectionSettings(server, authorization=TokenFile(token), ca=read_file(ca))


class _Merged(t.NamedTuple):
    """The entries of all files. Of several entries of a kind with the same name it has the first."""

    contexts: dict[str, Entry]
    clusters: dict[str, Entry]
    users: dict[str, Entry]
    current_contexts: tuple[str, ...]

    @property
    def current_context(self) -> str:
        """Return the first of the current contexts. It is empty if there is none."""
        return next(iter(self.current_contexts), "")


def _merged(source: Source) -> _Merged:
    if isinstance(source.kubeconfig, dict):
        contents = [(Path(), source.kubeconfig)]
    else:
        contents = [(file.parent.absolute(), _content_of(file)) for file in source.files if exists(file)]
    if not contents:
        raise ConnectionSettingsError(f"there is no file {', '.join(map(searched, source.files))}")
    found: dict[str, dict[str, Entry]] = {"context": {}, "cluster": {}, "user": {}}
    current: list[str] = []
    for folder, content in contents:
        for kind, entries in found.items():
            for entry in _entries(content, kind, folder):
                entries.setdefault(entry.name, entry)
        named = content.get("current-context")
        if named is not None and not isinstance(named, str):
            raise ConnectionSettingsError("its current-context is not a text")
        if named:
            current.append(named)
    return _Merged(found["context"], found["cluster"], found["user"], tuple(dict.fromkeys(current)))


def _content_of(file: Path) -> Json:
    content = load_yaml(read_file(file))
    if content is None:  # an empty file of several ones has no effect
        return {}
    if not isinstance(content, dict):
        raise ConnectionSettingsError(f"the file {file} is not a kubeconfig: it has no keys")
    return content


def _entries(content: Json, kind: str, folder: Path) -> t.Iterator[Entry]:
    listed = content.get(f"{kind}s")
    if listed is None:
        return
    if not isinstance(listed, list):
        raise ConnectionSettingsError(f"{kind}s is not a list")
    names: set[str] = set()
    for number, item in enumerate(listed, 1):
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise ConnectionSettingsError(f"entry {number} of {kind}s has no name")
        name, inner = item["name"], item.get(kind)
        if inner is not None and not isinstance(inner, dict):
            raise ConnectionSettingsError(f"{kind} of the entry {name} of {kind}s is not a mapping")
        if name in names:
            raise ConnectionSettingsError(f"{kind}s has two entries with the name {name}")
        names.add(name)
        yield Entry(kind, name, inner or {}, folder)


class _Chosen(t.NamedTuple):
    """The cluster and the user of a context, or those that the source names in their place. The name of the context may be empty."""

    context: str
    cluster: Entry
    user: Entry


def _chosen(merged: _Merged, source: Source) -> _Chosen:
    """Return the entries for the source. Raises ConnectionSettingsError."""
    for kind, wanted, entries in (("cluster", source.cluster, merged.clusters), ("user", source.user, merged.users)):
        if wanted and wanted not in entries:
            raise ConnectionSettingsError(f"there is no {kind} {wanted} in it; it has {', '.join(entries) or 'none'}")
    name = source.context or merged.current_context
    context = merged.contexts.get(name)
    if context is None and source.cluster and not name:
        context = Entry("context", name, {}, Path())
    if not name and context is None:
        raise ConnectionSettingsError("it has no current-context, and no context is given")
    if context is None:
        raise ConnectionSettingsError(f"there is no context {name} in it; it has {', '.join(merged.contexts) or 'none'}")
    cluster_name, user_name = source.cluster or context.text("cluster"), source.user or context.text("user")
    cluster = merged.clusters.get(cluster_name)
    if cluster is None:
        raise ConnectionSettingsError(f"there is no cluster {cluster_name or '(without a name)'} in it, which the context {name} names")
    if user_name and user_name not in merged.users:
        raise ConnectionSettingsError(f"there is no user {user_name} in it, which the context {name} names")
    return _Chosen(name, cluster, merged.users.get(user_name, Entry("user", user_name, {}, Path())))


def _settings(chosen: _Chosen, authorization: Authorization, server: str) -> ConnectionSettings:
    """Return the settings of a cluster and a user. ``server`` replaces the server of the cluster, unless it is empty."""
    context, cluster, user = chosen
    is_own_server = not server
    server = (server or cluster.text("server")).rstrip("/")
    if not server:
        raise ConnectionSettingsError(f"the cluster {cluster.name} has no server")
    secured = uses_tls(server)
    return ConnectionSettings(
        server,
        authorization=authorization,
        headers=_impersonation(user),
        ca=cluster.pem("certificate-authority") if secured else None,
        client_certificate=user.pem("client-certificate") if secured else None,
        client_key=user.pem("client-key") if secured else None,
        verify=not cluster.truth("insecure-skip-tls-verify"),
        tls_server_name=cluster.text("tls-server-name"),
        proxy=cluster.text("proxy-url"),
        cluster=cluster.name if is_own_server else "",
        context=context,
    )


def _authorization(user: Entry) -> Authorization:
    if user.content.get("auth-provider") is not None:
        raise UnsupportedLoginError
    token, token_file = user.text("token"), user.text("tokenFile")
    if token and token_file:
        # As in client-go (``transport/round_trippers.go``), the file counts, and the token only while the file cannot be read.
        return TokenFile(user.folder / token_file, otherwise=token)
    if token:
        return bearer(token)
    path = user.file("tokenFile")
    if path is not None:
        return TokenFile(path)
    if user.content.get("exec") is not None:
        raise UnsupportedLoginError
    if user.text("username"):
        return basic(user.text("username"), user.text("password"))
    return no_authorization


def _impersonation(user: Entry) -> tuple[tuple[str, str], ...]:
    """Return the impersonation headers of the user."""
    given = [("Impersonate-User", user.text("as")), ("Impersonate-Uid", user.text("as-uid"))]
    given += [("Impersonate-Group", group) for group in _texts(user, "as-groups", user.content.get("as-groups"))]
    extra = user.content.get("as-user-extra") or {}
    if not isinstance(extra, dict):
        raise ConnectionSettingsError(f"as-user-extra of the user {user.name} is not a mapping")
    for key, values in extra.items():
        given += [(f"Impersonate-Extra-{quote(str(key), safe='')}", value) for value in _texts(user, "as-user-extra", values)]
    return tuple((name, value) for name, value in given if value)


def _texts(user: Entry, key: str, values: t.Any) -> list[str]:
    if values is None:
        return []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise ConnectionSettingsError(f"{key} of the user {user.name} is not a list of texts")
    return values
