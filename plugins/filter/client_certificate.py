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

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.certificate import read_certificate


def client_certificate(text):
    """Return the user and the expiry of a certificate, or an empty dict if the text is not one."""
    found = read_certificate(str(text))
    return found._asdict() if found else {}


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"client_certificate": client_certificate}
