# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The user and the expiry of the client certificate in a kubeconfig."""

from __future__ import annotations

import base64
import binascii
import ssl
from datetime import datetime, timezone
from typing import NamedTuple, Optional

VERSION = 0xA0
"""The tag of DER (ITU-T X.690) of the version of a certificate."""
UTC_TIME = 0x17
"""The tag of DER of a time whose year has two digits."""
COMMON_NAME = bytes((0x55, 0x04, 0x03))
"""The object identifier 2.5.4.3."""


class Certificate(NamedTuple):
    """The name of the user, and the expiry in seconds since the epoch."""

    common_name: str
    not_after: int


def read_certificate(text: str) -> Optional[Certificate]:
    """Return what the field client-certificate-data says, which is PEM in base64. None if the text is not a certificate."""
    try:
        pem = base64.b64decode(text.strip(), validate=True).decode("ascii")
        ((_tag, certificate),) = _elements(ssl.PEM_cert_to_DER_cert(pem))
        fields = _elements(_elements(certificate)[0][1])
        # RFC 5280, 4.1: an optional version, the serial number, the algorithm, the issuer, the validity and the subject.
        first = 1 if fields[0][0] == VERSION else 0
        validity, subject = fields[first + 3][1], fields[first + 4][1]
        return Certificate(_common_name(subject), _epoch_s(*_elements(validity)[1]))
    except (binascii.Error, IndexError, ValueError):
        return None


def _elements(data: bytes) -> list[tuple[int, bytes]]:
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


def _common_name(subject: bytes) -> str:
    for _tag, names in _elements(subject):
        for _name_tag, name in _elements(names):
            (_identifier_tag, identifier), (_value_tag, value) = _elements(name)
            if identifier == COMMON_NAME:
                return value.decode("utf-8")
    return ""


def _epoch_s(tag: int, content: bytes) -> int:
    text = content.decode("ascii")
    if tag == UTC_TIME:
        # RFC 5280, 4.1.2.5.1: years from 1950 to 2049.
        text = ("19" if text[:2] >= "50" else "20") + text
    return int(datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=timezone.utc).timestamp())
