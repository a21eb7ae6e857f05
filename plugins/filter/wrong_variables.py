# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: wrong_variables
short_description: Find mistakes in the variables of the playbooks
version_added: 0.1.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Finds names that the playbook does not know, numbers that are too small, and files that cannot be written where Ansible runs.
options:
  _input:
    description: The variables that begin with the playbook's prefix, such as C(rebalance_), by name.
    type: dict
    required: true
  playbook:
    description: Whose variables they are.
    type: str
    choices: [rebalance, rescue]
    default: rebalance
seealso:
  - plugin: onprem.kube_scheduling.spread_report
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Check a number before a long job begins
  ansible.builtin.assert:
    that: "{'rebalance_cooldown': cooldown} | onprem.kube_scheduling.wrong_variables == []"
"""

RETURN = r"""
_value:
  description: One sentence for each mistake; empty if there is none.
  type: list
  elements: str
"""

import os
from pathlib import Path

from ansible.errors import AnsibleFilterError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.variables import (
    PLAYBOOKS,
    wrong_variables,
)

FILES = ("rebalance_map_path", "rebalance_report_path")


def find_wrong_variables(given, playbook="rebalance"):
    """Return the mistakes in names and values, followed by files that cannot be written."""
    if playbook not in PLAYBOOKS:
        raise AnsibleFilterError(f"wrong_variables: there is no playbook {playbook!r}: name one of {', '.join(PLAYBOOKS)}")
    files = [(name, str(given[name])) for name in FILES if given.get(name)]
    return [*wrong_variables(given, PLAYBOOKS[playbook]), *(mistake for name, path in files for mistake in _about_file(name, path))]


def _about_file(name, path):
    file = Path(path).expanduser().resolve()
    if file.is_dir():
        return [f"{name}: {path} is a folder; name a file in it"]
    if not file.parent.is_dir():
        return [f"{name}: there is no folder {file.parent}; create it first"]
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        return [f"{name}: {file} may not be written"]
    return []


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"wrong_variables": find_wrong_variables}
