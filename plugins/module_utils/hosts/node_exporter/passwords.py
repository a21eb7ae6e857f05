# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The bcrypt hashes of passwords, which libcrypt of the host makes."""

from __future__ import annotations

import ctypes
import ctypes.util
import re
import secrets
from collections.abc import Mapping

from ..common.system import HostError

HASH = re.compile(r"\$2[abxy]?\$\d\d\$[./A-Za-z0-9]{53}\Z")
DIGITS = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
SALT_DIGITS = 22
LAST_DIGITS = ".Oeu"
"""The last digit of a salt has two bits, because a salt has 128 bits."""
COST = 10
"""The logarithm of the number of rounds. node_exporter calculates as many for the first request of each password."""
LONGEST_PASSWORD_BYTES = 72
"""bcrypt ignores the rest of a password."""
STATE_BYTES = 1 << 18
"""At least the size of `struct crypt_data`, which is 131,232 bytes in glibc and 32,768 in libxcrypt."""


def bcrypt_hashes(users: Mapping[str, str], kept: Mapping[str, str]) -> dict[str, str]:
    """Return the hash of each user's password. Raises HostError if a password cannot be hashed.

    A password that is a hash stays as it is. A hash of an earlier run is kept as long as it is one of the same password.
    """
    return {user: _hash_of(user, password, str(kept.get(user, ""))) for user, password in users.items()}


def _hash_of(user: str, password: str, kept: str) -> str:
    if HASH.match(password):
        return password
    if len(password.encode()) > LONGEST_PASSWORD_BYTES:
        raise HostError(f"the password of user {user} has more than {LONGEST_PASSWORD_BYTES} bytes, which bcrypt ignores: shorten it")
    if HASH.match(kept) and _crypt(user, password, kept) == kept:
        return kept
    salt = "".join(secrets.choice(DIGITS) for _digit in range(SALT_DIGITS - 1)) + secrets.choice(LAST_DIGITS)
    return _crypt(user, password, f"$2b${COST}${salt}")


def _crypt(user: str, password: str, setting: str) -> str:
    """Return the hash of a password with the salt and the cost of `setting`, which may be a hash."""
    name = ctypes.util.find_library("crypt")
    found = None
    if name:
        crypt = ctypes.CDLL(name).crypt_r
        crypt.argtypes, crypt.restype = [ctypes.c_char_p] * 3, ctypes.c_char_p
        found = crypt(password.encode(), setting.encode(), ctypes.create_string_buffer(STATE_BYTES))
    if found is None or not HASH.match(found.decode("ascii", "replace")):
        raise HostError(f"the host cannot hash the password of user {user}: give its bcrypt hash (htpasswd -nBC {COST} {user})")
    return str(found.decode("ascii"))
