# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: duration_seconds
short_description: Return the seconds of a duration
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Reads a duration as the settings of the programs and the options of the modules do.
options:
  _input:
    description: Whole seconds, or a text such as V(30s), V(2m30s) or V(1.5h).
    type: raw
    required: true
"""

EXAMPLES = r"""
- name: Show the seconds of the setting
  ansible.builtin.debug:
    msg: "{{ spread_cronjob_settings.wait_timeout | onprem.kube_scheduling.duration_seconds }}"
"""

RETURN = r"""
_value:
  description: The whole seconds.
  type: int
"""

from ansible.errors import AnsibleFilterError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.duration import parse_duration


def duration_seconds(value):
    """Return the whole seconds of a duration. Raises AnsibleFilterError if the value is not a duration."""
    try:
        return parse_duration(value)
    except ValueError as error:
        raise AnsibleFilterError(f"duration_seconds: {error}") from error


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"duration_seconds": duration_seconds}
