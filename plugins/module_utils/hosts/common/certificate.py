# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The user and the expiry of a client certificate, such as that of a kubeconfig."""

from __future__ import annotations

import base64
import re
from datetime import datetime, timezone
from typing import NamedTuple, Optional

FIELD = re.compile(r'client-certificate-data: *"?([A-Za-z0-9+/=]+)')
PEM = re.compile("-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
# The library cryptography would read it, but this runs on managed hosts, which have only Python's own library.
EXPIRY_AND_NAME = re.compile(
    rb"\A\x30\x82..\x30.*?"
    # RFC 5280, 4.1.2.5: two times. The year has two digits from 1950 to 2049, and otherwise four.
    rb"(?:\x17\x0d\d{12}|\x18\x0f\d{14})Z(?:\x17\x0d|\x18\x0f)(\d{12,14})Z"
    # The subject follows. Its common name has the object identifier 2.5.4.3, a tag and a length.
    rb"\x30.*?\x06\x03\x55\x04\x03.(.)(.*)\Z",
    re.DOTALL,
)
"""The fields in the DER (ITU-T X.690) of a certificate."""


class Certificate(NamedTuple):
    """The name of the user, and the expiry in seconds since the epoch."""

    common_name: str
    not_after: int


def read_certificate(text: str) -> Optional[Certificate]:
    """Return the first certificate of a kubeconfig or of a text with PEM. None if there is none."""
    field = FIELD.search(text)
    try:
        pem = PEM.search(base64.b64decode(field.group(1)).decode("ascii") if field else text)
        der = base64.b64decode(pem.group(1)) if pem else b""
        found = EXPIRY_AND_NAME.match(der)
        if not found or int.from_bytes(der[2:4], "big") + 4 != len(der):
            return None
        digits = found.group(1).decode()
        if len(digits) == 12:
            digits = ("19" if digits >= "50" else "20") + digits
        expiry = datetime.strptime(digits, "%Y%m%d%H%M%S").replace(tzinfo=timezone.utc)
        return Certificate(found.group(3)[: found.group(2)[0]].decode(), int(expiry.timestamp()))
    except ValueError:
        return None
