# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The check of the files that FILE names: tokens, passwords, the kubeconfig, and certificates with their keys.

It is a part of --check-config only. At a start such a file may not exist yet, and the sources read it again later.
"""

from __future__ import annotations

import ssl
import typing as t
from pathlib import Path

from ....plugins.module_utils.kube.client.errors import KubeError
from ..http.tls import TlsFiles
from ..settings_errors import ErrorList, FileSettingError, SettingPath
from ..sources.kubernetes.connection import open_kube_api
from ..sources.settings import KubernetesSettings, LoginSettings, SourceSettings

CERTIFICATE, KEY = b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY-----"
OTHER_KEY = "KEY_VALUES_MISMATCH"
"""The reason of OpenSSL for a key that does not belong to the certificate."""


def check_named_files(sources: SourceSettings, server: TlsFiles | None, errors: ErrorList) -> None:
    """Add an error for each file that is missing, cannot be read, or has other content than its setting needs."""
    if sources.prometheus is not None:
        _check_login(("sources", "prometheus"), sources.prometheus.login, errors)
    if sources.node_exporter is not None:
        _check_login(("sources", "node_exporter"), sources.node_exporter.login, errors)
    # Without a path it is that of the machine or of the pod, which FILE does not name.
    if sources.kubernetes is not None and sources.kubernetes.kubeconfig:
        with errors.collected():
            _check_kubeconfig(sources.kubernetes)
    if server is not None:
        _check_pair(("server", "tls"), server.cert_file, server.key_file, errors)
        with errors.collected():
            _check_authority(("server", "tls", "client_ca_file"), server.client_ca_file)


def _check_login(path: SettingPath, login: LoginSettings, errors: ErrorList) -> None:
    with errors.collected():
        _check_secret((*path, "bearer_token_file"), login.bearer_token_file, "token")
    with errors.collected():
        _check_secret((*path, "basic_auth", "password_file"), login.password_file, "password")
    with errors.collected():
        _check_authority((*path, "tls", "ca_file"), login.tls.ca_file)
    _check_pair((*path, "tls"), login.tls.cert_file, login.tls.key_file, errors)


def _check_kubeconfig(settings: KubernetesSettings) -> None:
    try:
        open_kube_api(settings)
    except KubeError as error:
        raise FileSettingError(("sources", "kubernetes", "kubeconfig"), f": {error}") from None


def _check_secret(path: SettingPath, file: str, what: str) -> None:
    if file and not _content(path, file).strip():
        raise FileSettingError(path, f": the file {_shown(file)} has no {what}")


def _check_authority(path: SettingPath, file: str) -> None:
    if not file:
        return
    content = _content(path, file)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=content.decode("latin-1"))
    except (ssl.SSLError, ValueError):
        raise FileSettingError(path, f": the file {_shown(file)} has no PEM certificate that can be read") from None


def _check_pair(path: SettingPath, certificate: str, key: str, errors: ErrorList) -> None:
    """Check a certificate and its key, each by itself and both together."""
    of_certificate, of_key = (*path, "cert_file"), (*path, "key_file")
    before = len(errors.errors)
    with errors.collected():
        _check_pem(of_certificate, certificate, CERTIFICATE, "certificate")
    with errors.collected():
        _check_pem(of_key, key, KEY, "private key")
    if not certificate or len(errors.errors) > before:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password=_refuse_passphrase)
    except ssl.SSLError as error:
        if error.reason == OTHER_KEY:
            errors.add(of_key, f": the key in {_shown(key)} does not belong to the certificate in {_shown(certificate)}")
        else:
            errors.add(of_certificate, f": {_shown(certificate)} and {_shown(key)} are no PEM certificate with its key: {error}")
    except ValueError:
        errors.add(of_key, f": the key in {_shown(key)} has a passphrase: store it without one, and let only the extender read it")


def _check_pem(path: SettingPath, file: str, mark: bytes, what: str) -> None:
    if file and mark not in _content(path, file):
        raise FileSettingError(path, f": the file {_shown(file)} has no {what} in PEM")


def _content(path: SettingPath, file: str) -> bytes:
    """Return the content of a file. Raises FileSettingError."""
    try:
        return Path(file).read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "the path is not valid"
        raise FileSettingError(path, f": the file {_shown(file)} cannot be read: {reason}") from None


def _shown(file: str) -> Path:
    """Return the path with its folder. A relative path begins at the folder of the process and not at that of FILE."""
    return Path(file).absolute()


def _refuse_passphrase() -> t.NoReturn:
    """Refuse to ask for a passphrase on the terminal. Raises ValueError."""
    raise ValueError
