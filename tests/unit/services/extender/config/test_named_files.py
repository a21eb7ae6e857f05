# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""--check-config reads the files that FILE names, and says which setting has a file that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest
import trustme
from ansible_collections.onprem.kube_scheduling.services.extender.cli import main
from ansible_collections.onprem.kube_scheduling.services.extender.http.tls import TlsFiles, make_context
from cryptography.hazmat.primitives import serialization

SOURCE = """
sources:
  prometheus:
    urls: [https://127.0.0.1:9090]
    {login}
profiles:
  quiet:
    agents:
    - {{name: template}}
"""
SERVER = """
server:
  tls:
    cert_file: {cert}
    key_file: {key}
    client_ca_file: {ca}
profiles:
  quiet:
    agents:
    - {{name: template}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files that can be used: a.crt with a.key, b.crt with b.key, ca.crt, token; and some that cannot."""
    path = tmp_path_factory.mktemp("files")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(path / "ca.crt"))
    for name in "ab":
        pair = authority.issue_cert("127.0.0.1")
        pair.cert_chain_pems[0].write_to_path(str(path / f"{name}.crt"))
        pair.private_key_pem.write_to_path(str(path / f"{name}.key"))
    (path / "token").write_text("secret\n")
    (path / "empty").write_text("\n")
    (path / "text").write_text("no certificate\n")
    (path / "broken.crt").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    return path


def errors(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the errors of --check-config without the name of FILE."""
    file = folder / "extender.yaml"
    file.write_text(text)
    code = main([f"--config={file}", "--check-config"], {})
    found = [line.removeprefix(f"extender: file {file}, ") for line in capsys.readouterr().err.splitlines() if "note:" not in line]
    assert code == (2 if found else 0)
    return found


@pytest.mark.parametrize(
    ("login", "wanted"),
    [
        ("bearer_token_file: {0}/token", []),
        (
            "bearer_token_file: {0}/none",
            ["line 5, sources.prometheus.bearer_token_file: the file {0}/none cannot be read: No such file or directory"],
        ),
        ("bearer_token_file: {0}/empty", ["line 5, sources.prometheus.bearer_token_file: the file {0}/empty has no token"]),
        ("bearer_token_file: {0}", ["line 5, sources.prometheus.bearer_token_file: the file {0} cannot be read: Is a directory"]),
        (
            "basic_auth: {{username: u, password_file: {0}/empty}}",
            ["line 5, sources.prometheus.basic_auth.password_file: the file {0}/empty has no password"],
        ),
        ("tls: {{ca_file: {0}/ca.crt, cert_file: {0}/a.crt, key_file: {0}/a.key}}", []),
        (
            "tls: {{ca_file: {0}/text, cert_file: {0}/text, key_file: {0}/none}}",
            [
                "line 5, sources.prometheus.tls.ca_file: the file {0}/text has no PEM certificate",
                "line 5, sources.prometheus.tls.cert_file: the file {0}/text has no certificate in PEM",
                "line 5, sources.prometheus.tls.key_file: the file {0}/none cannot be read: No such file or directory",
            ],
        ),
        (
            "tls: {{cert_file: {0}/a.crt, key_file: {0}/b.key}}",
            ["line 5, sources.prometheus.tls.key_file: the key in {0}/b.key does not belong to the certificate"],
        ),
    ],
)
def test_each_file_of_a_login_that_cannot_be_used_is_named_with_its_setting(
    folder: Path, capsys: pytest.CaptureFixture[str], login: str, wanted: list[str]
) -> None:
    found = errors(folder, SOURCE.format(login=login.format(folder)), capsys)
    assert all(text.startswith(start.format(folder)) for text, start in zip(found, wanted, strict=True)), found


@pytest.mark.parametrize(
    ("cert", "key", "ca", "wanted"),
    [
        ("a.crt", "a.key", "ca.crt", []),
        ("a.crt", "b.key", "ca.crt", ["line 5, server.tls.key_file: the key in {0}/b.key does not belong to the certificate"]),
        ("a.crt", "a.crt", "text", [
            "line 5, server.tls.key_file: the file {0}/a.crt has no private key in PEM",
            "line 6, server.tls.client_ca_file: the file {0}/text has no PEM certificate",
        ]),
        ("broken.crt", "a.key", "ca.crt", ["line 4, server.tls.cert_file: {0}/broken.crt and {0}/a.key are no PEM certificate"]),
    ],
)  # fmt: skip
def test_each_file_of_the_server_that_cannot_be_used_is_named_with_its_setting(
    folder: Path, capsys: pytest.CaptureFixture[str], cert: str, key: str, ca: str, wanted: list[str]
) -> None:
    found = errors(folder, SERVER.format(cert=folder / cert, key=folder / key, ca=folder / ca), capsys)
    assert len(found) == len(wanted)
    assert all(text.startswith(start.format(folder)) for text, start in zip(found, wanted, strict=True)), found


def test_a_key_with_a_passphrase_does_not_ask_for_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = serialization.load_pem_private_key((folder / "a.key").read_bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"passphrase")
    )
    (folder / "locked.key").write_bytes(locked)
    (found,) = errors(folder, SERVER.format(cert=folder / "a.crt", key=folder / "locked.key", ca=folder / "ca.crt"), capsys)
    assert found.startswith(f"line 5, server.tls.key_file: the key in {folder}/locked.key has a passphrase")
    with pytest.raises(OSError, match=r"locked.key are no PEM certificate"):
        make_context(TlsFiles(str(folder / "a.crt"), str(folder / "locked.key")))


def test_a_missing_kubeconfig_is_named_with_its_setting(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"sources:\n  kubernetes:\n    kubeconfig: {folder}/none\nprofiles: {{quiet: {{agents: [{{name: template}}]}}}}\n"
    (found,) = errors(folder, text, capsys)
    assert found.startswith("line 3, sources.kubernetes.kubeconfig: ") and f"{folder}/none" in found
