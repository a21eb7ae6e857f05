# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: without_logins
short_description: Remove the logins from the URLs in a text
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - A URL may have a user name and a password before its host. They are removed, so that the text can be shown.
options:
  _input:
    description: A URL, or a text with URLs.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show where the archive is from
  ansible.builtin.debug:
    msg: "{{ 'https://user:password@mirror.example.org/archive.tar.gz' | onprem.kube_scheduling.without_logins }}"
"""

RETURN = r"""
_value:
  description: The text without logins.
  type: str
"""

import re

LOGIN = re.compile(r"//[^/\s]*@")


def without_logins(text):
    """Return the text with no login in its URLs."""
    return LOGIN.sub("//", str(text))


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"without_logins": without_logins}
