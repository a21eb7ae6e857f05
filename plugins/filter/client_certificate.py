# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: client_certificate
short_description: Return the user and the expiry of a client certificate
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Reads the field C(client-certificate-data) of a kubeconfig, which is a certificate in PEM, encoded with base64.
  - The role P(onprem.kube_scheduling.critical_rescuer#role) renews the kubeconfig of a static pod by it.
options:
  _input:
    description: The text of the field. It contains no private key.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the days that are left
  ansible.builtin.debug:
    msg: "{{ ((certificate.not_after - now(utc=true).timestamp()) / 86400) | int }} days"
  vars:
    certificate: "{{ kubeconfig.users[0].user['client-certificate-data'] | onprem.kube_scheduling.client_certificate }}"
"""

RETURN = r"""
_value:
  description: >-
    C(common_name) is the name of the user, and C(not_after) the expiry in seconds since the epoch. The value is empty if the text is not a
    certificate.
  type: dict
"""

import base64
import binascii
import ssl
from datetime import datetime, timezone

VERSION = 0xA0
"""The tag of DER (ITU-T X.690) of the version of a certificate."""
UTC_TIME = 0x17
"""The tag of DER of a time whose year has two digits."""
COMMON_NAME = bytes((0x55, 0x04, 0x03))
"""The object identifier 2.5.4.3."""


def client_certificate(text):
    """Return the user and the expiry of a certificate, or an empty dict if the text is not one."""
    try:
        pem = base64.b64decode(str(text).strip(), validate=True).decode("ascii")
        ((_tag, certificate),) = _elements(ssl.PEM_cert_to_DER_cert(pem))
        fields = _elements(_elements(certificate)[0][1])
        # RFC 5280, 4.1: an optional version, the serial number, the algorithm, the issuer, the validity and the subject.
        first = 1 if fields[0][0] == VERSION else 0
        validity, subject = fields[first + 3][1], fields[first + 4][1]
        return {"common_name": _common_name(subject), "not_after": _epoch_s(*_elements(validity)[1])}
    except (binascii.Error, IndexError, ValueError):
        return {}


def _elements(data):
    """Return the tag and the content of each element of a DER text. Raises ValueError and IndexError if it is cut off."""
    found, at = [], 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:  # the length itself has so many bytes
            size = length & 0x7F
            length, at = int.from_bytes(data[at : at + size], "big"), at + size
        if at + length > len(data):
            raise ValueError("the text is cut off")
        found.append((tag, data[at : at + length]))
        at += length
    return found


def _common_name(subject):
    for _tag, names in _elements(subject):
        for _tag, name in _elements(names):
            (_tag, identifier), (_tag, value) = _elements(name)
            if identifier == COMMON_NAME:
                return value.decode("utf-8")
    return ""


def _epoch_s(tag, content):
    text = content.decode("ascii")
    if tag == UTC_TIME:
        # RFC 5280, 4.1.2.5.1: years from 1950 to 2049.
        text = ("19" if text[:2] >= "50" else "20") + text
    return int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=timezone.utc).timestamp())


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"client_certificate": client_certificate}
