# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The check of the files that FILE names: tokens, passwords, the kubeconfig, and certificates with their keys.

It is a part of --check-config only. At a start such a file may not exist yet, and the sources read it again later.
"""

from __future__ import annotations

import ssl
import typing as t
from collections.abc import Callable
from pathlib import Path

from ....plugins.module_utils.kube.client.errors import KubeError
from ...common.typed_settings import Mistakes, SettingPath
from ..http.tls import TlsFiles
from ..sources.kubernetes.connection import open_kube_api
from ..sources.settings import LoginSettings, SourceSettings

CERTIFICATE, KEY = b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY-----"
OTHER_KEY = "KEY_VALUES_MISMATCH"
"""The reason of OpenSSL for a key that does not belong to the certificate."""


def named_file_mistakes(sources: SourceSettings, server: TlsFiles | None) -> Mistakes:
    """Return a mistake for each file that is missing, cannot be read, or has other content than its setting needs."""
    mistakes = Mistakes()
    if sources.prometheus is not None:
        _check_login(("sources", "prometheus"), sources.prometheus, mistakes)
    if sources.node_exporter is not None:
        _check_login(("sources", "node_exporter"), sources.node_exporter, mistakes)
    # Without a path it is that of the machine or of the pod, which FILE does not name.
    if sources.kubernetes is not None and sources.kubernetes.kubeconfig:
        try:
            open_kube_api(sources.kubernetes)
        except KubeError as error:
            mistakes.add(("sources", "kubernetes", "kubeconfig"), f": {error}")
    if server is not None:
        _check_pair(("server", "tls"), server.cert_file, server.key_file, mistakes)
        _check(("server", "tls", "client_ca_file"), server.client_ca_file, _is_authority, "PEM certificate that can be read", mistakes)
    return mistakes


def _check_login(path: SettingPath, login: LoginSettings, mistakes: Mistakes) -> None:
    _check((*path, "bearer_token_file"), login.bearer_token_file, bytes.strip, "token", mistakes)
    if login.basic_auth is not None:
        _check((*path, "basic_auth", "password_file"), login.basic_auth.password_file, bytes.strip, "password", mistakes)
    _check((*path, "tls", "ca_file"), login.tls.ca_file, _is_authority, "PEM certificate that can be read", mistakes)
    _check_pair((*path, "tls"), login.tls.cert_file, login.tls.key_file, mistakes)


def _check(path: SettingPath, file: str, is_good: Callable[[bytes], t.Any], what: str, mistakes: Mistakes) -> None:
    """Check the content of a file, if one is named."""
    if not file:
        return
    try:
        content = Path(file).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "the path is not valid"
        mistakes.add(path, f": the file {_shown(file)} cannot be read: {reason}")
        return
    if not is_good(content):
        mistakes.add(path, f": the file {_shown(file)} has no {what}")


def _is_authority(content: bytes) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content.decode("latin-1"))
    except (ssl.SSLError, ValueError):
        return False
    return True


def _check_pair(path: SettingPath, certificate: str, key: str, mistakes: Mistakes) -> None:
    """Check a certificate and its key, each by itself and both together."""
    of_certificate, of_key = (*path, "cert_file"), (*path, "key_file")
    before = len(mistakes)
    _check(of_certificate, certificate, lambda content: CERTIFICATE in content, "certificate in PEM", mistakes)
    _check(of_key, key, lambda content: KEY in content, "private key in PEM", mistakes)
    if not certificate or len(mistakes) > before:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_refuse_passphrase)
    except ssl.SSLError as error:
        if error.reason == OTHER_KEY:
            mistakes.add(of_key, f": the key in {_shown(key)} does not belong to the certificate in {_shown(certificate)}")
        else:
            mistakes.add(of_certificate, f": {_shown(certificate)} and {_shown(key)} are no PEM certificate with its key: {error}")
    except ValueError:
        mistakes.add(of_key, f": the key in {_shown(key)} has a passphrase: store it without one, and let only the extender read it")


def _shown(file: str) -> Path:
    """Return the path with its folder. A relative path begins at the folder of the process and not at that of FILE."""
    return Path(file).absolute()


def _refuse_passphrase() -> t.NoReturn:
    """Refuse to ask for a passphrase on the terminal. Raises ValueError."""
    raise ValueError
