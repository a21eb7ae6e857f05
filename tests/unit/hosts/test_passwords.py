# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hash of a password changes only with the password."""

from __future__ import annotations

import json

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import HostError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter import installation
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter.host import HASH
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter.installation import bcrypt_hashes

NOT_JSON = "tls_server_config:"
KNOWN = "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
"""A test vector of crypt_blowfish: the hash of U*U."""


def kept(users: dict[str, str]) -> str:
    """A web configuration with these hashes."""
    return json.dumps({"basic_auth_users": users})


def test_password_becomes_a_hash_with_a_salt_of_its_own() -> None:
    first, second = bcrypt_hashes({"a": "secret"}, ""), bcrypt_hashes({"a": "secret"}, "")
    assert HASH.match(first["a"]) and first["a"].startswith("$2b$10$") and first != second


def test_kept_hash_of_the_same_password_stays() -> None:
    assert bcrypt_hashes({"a": "U*U"}, kept({"a": KNOWN})) == {"a": KNOWN}


@pytest.mark.parametrize("web_config", [kept({"a": KNOWN}), kept({"b": KNOWN}), kept({"a": "no hash"}), "{}", "", NOT_JSON])
def test_other_password_other_user_or_no_hash_gives_a_new_hash(web_config: str) -> None:
    found = bcrypt_hashes({"a": "other"}, web_config)
    assert set(found) == {"a"} and HASH.match(found["a"]) and found["a"] != KNOWN


@pytest.mark.parametrize("ident", ["2a", "2b", "2y"])
def test_given_hash_stays_as_it_is(ident: str) -> None:
    given = KNOWN.replace("2b", ident)
    assert bcrypt_hashes({"a": given}, kept({"a": KNOWN})) == {"a": given}


def test_password_of_which_bcrypt_would_ignore_the_end_is_refused() -> None:
    assert bcrypt_hashes({"a": "ä" * 36}, "")
    with pytest.raises(HostError, match="password of user a has more than 72 bytes"):
        bcrypt_hashes({"a": "ä" * 36 + "x"}, "")


@pytest.mark.parametrize("library", [None, "libc.so.6"])
def test_host_without_bcrypt_names_the_remedy_and_no_password(monkeypatch: pytest.MonkeyPatch, library: str | None) -> None:
    monkeypatch.setattr(installation.ctypes.util, "find_library", lambda name: library)
    monkeypatch.setattr(installation.ctypes, "CDLL", lambda name: type("Library", (), {"crypt": _NoBcrypt, "crypt_gensalt": _NoBcrypt})())
    with pytest.raises(HostError, match=r"password of user a: give its bcrypt hash \(htpasswd") as error:
        bcrypt_hashes({"a": "secret", "b": KNOWN}, "")
    assert "secret" not in str(error.value)
    assert bcrypt_hashes({"b": KNOWN}, "") == {"b": KNOWN}


class _NoBcrypt:
    """A function of a library that knows no bcrypt."""

    def __new__(cls, *arguments: object) -> bytes:  # type: ignore[misc]
        return b"*0"
