#!/usr/bin/python
# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: check_variables
short_description: Refuse wrong variables of a role or a playbook of this collection
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - This module is internal to the collection. It may change in any release. Do not use it in your own playbooks.
  - Fails with one message that names every wrong variable, before anything is read or done. These are unknown names, wrong types, a text
    in place of a list or a dictionary, null, numbers below their minimum, files that cannot be written, values that cannot be evaluated,
    and what the rules of the role or the playbook find.
  - An empty text, as from a survey, means that a list, or a variable without a default, is not set.
  - In a role, its C(meta/argument_specs.yml) declares the variables, and the rules are those of the role.
extends_documentation_fragment:
  - onprem.kube_scheduling.attributes
attributes:
  check_mode:
    description: Can run in check mode and return what would be done without changing anything.
    support: full
  action_group:
    description: The module does not connect to a cluster.
    support: none
    membership: []
  idempotent:
    description: The module changes nothing.
    support: full
options:
  argument_spec:
    description: The variables of a playbook, as the options of an argument spec.
    type: dict
  prefix:
    description: A regular expression for the prefix of these variables.
    type: str
  minima:
    description: The lowest values of numbers, by variable.
    type: dict
    default: {}
  converted:
    description: The variables of which a module makes a list, so that a text is allowed.
    type: list
    elements: str
    default: []
  secret:
    description: The variables whose value is not shown.
    type: list
    elements: str
    default: []
  files:
    description: The variables with the path of a file that the run writes. An empty path means none.
    type: list
    elements: str
    default: []
  rules:
    description: The names of the rules of a playbook.
    type: list
    elements: str
    default: []
  settings:
    description: Settings of a program, which are checked by the code of the program.
    type: dict
    suboptions:
      program:
        description: The name of the program.
        type: str
        required: true
        choices: [extender, rebalancer, rescuer]
      documents:
        description: The name of a variable with a dictionary of settings. The keys are the names of these settings in messages.
        type: str
        required: true
  without_effect:
    description: Names without the prefix that are accepted with a warning, and the reasons why they have no effect.
    type: dict
    default: {}
  others:
    description: Mistakes that the caller has found, which the message names, too.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Refuse wrong variables of the role
  onprem.kube_scheduling.check_variables:
    minima: {spread_cronjob_wait_timeout: 1}
"""

RETURN = r"""
msg:
  description: A sentence for each mistake, each in a line of its own.
  returned: always
  type: str
  sample: "There is no variable rebalance_max_skeew; the nearest is rebalance_max_skew."
"""
