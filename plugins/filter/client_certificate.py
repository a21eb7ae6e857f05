# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: client_certificate
short_description: Return the user and the expiry of a client certificate
version_added: 0.1.0
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
requirements:
  - cryptography, which ansible-core needs, too
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
from datetime import timezone

from ansible.errors import AnsibleFilterError

try:
    from cryptography import x509
except ImportError as error:
    x509 = None
    X509_IMPORT_ERROR = error


def client_certificate(text):
    """Return the user and the expiry of a certificate. Raises AnsibleFilterError without the library."""
    if x509 is None:
        raise AnsibleFilterError("client_certificate: the Python library cryptography is missing on the controller") from X509_IMPORT_ERROR
    try:
        certificate = x509.load_pem_x509_certificate(base64.b64decode(str(text).strip(), validate=True))
    except (binascii.Error, ValueError):
        return {}
    names = certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    # Older versions of the library have only the time without a zone, which is UTC.
    not_after = getattr(certificate, "not_valid_after_utc", None) or certificate.not_valid_after.replace(tzinfo=timezone.utc)
    return {"common_name": str(names[0].value) if names else "", "not_after": int(not_after.timestamp())}


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"client_certificate": client_certificate}
