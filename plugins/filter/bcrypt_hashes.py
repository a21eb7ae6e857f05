# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: bcrypt_hashes
short_description: Return the bcrypt hash of each user's password
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - A password that is a bcrypt hash already stays as it is.
  - A hash is kept as long as it is one of the same password, so that its salt changes only with the password.
  - Needs libcrypt with bcrypt on the controller, as Debian and Fedora have it, unless all passwords are hashes.
options:
  _input:
    description: The password, or its bcrypt hash, of each user.
    type: dict
    required: true
  kept:
    description: The hashes of an earlier run, by user.
    type: dict
    default: {}
"""

EXAMPLES = r"""
- name: Hash the passwords
  ansible.builtin.set_fact:
    hashes: "{{ {'prometheus': password} | onprem.kube_scheduling.bcrypt_hashes(hashes | default({})) }}"
  no_log: true
"""

RETURN = r"""
_value:
  description: The bcrypt hash of each user's password.
  type: dict
"""

import ctypes
import ctypes.util
import re
import secrets

from ansible.errors import AnsibleFilterError

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


def bcrypt_hashes(users, kept=None):
    """Return the hash of each user's password. Raises AnsibleFilterError if a password cannot be hashed."""
    return {str(user): _hash_of(str(user), str(password), str((kept or {}).get(user, ""))) for user, password in users.items()}


def _hash_of(user, password, kept):
    if HASH.match(password):
        return password
    if len(password.encode()) > LONGEST_PASSWORD_BYTES:
        raise AnsibleFilterError(
            f"the password of user {user} has more than {LONGEST_PASSWORD_BYTES} bytes, which bcrypt ignores: shorten it"
        )
    if HASH.match(kept) and _crypt(user, password, kept) == kept:
        return kept
    salt = "".join(secrets.choice(DIGITS) for _digit in range(SALT_DIGITS - 1)) + secrets.choice(LAST_DIGITS)
    return _crypt(user, password, f"$2b${COST}${salt}")


def _crypt(user, password, setting):
    """Return the hash of a password with the salt and the cost of `setting`, which may be a hash."""
    name = ctypes.util.find_library("crypt")
    found = None
    if name:
        crypt = ctypes.CDLL(name).crypt_r
        crypt.argtypes, crypt.restype = [ctypes.c_char_p] * 3, ctypes.c_char_p
        found = crypt(password.encode(), setting.encode(), ctypes.create_string_buffer(STATE_BYTES))
    if found is None or not HASH.match(found.decode("ascii", "replace")):
        raise AnsibleFilterError(
            f"the controller cannot hash the password of user {user}: give its bcrypt hash (htpasswd -nBC {COST} {user})"
        )
    return found.decode("ascii")


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"bcrypt_hashes": bcrypt_hashes}
