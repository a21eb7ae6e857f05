# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The variables of a role, without Ansible's own types, which modules and the rules for configurations do not know."""

from __future__ import annotations

from collections.abc import Mapping


class RoleVariables:
    """The variables of a role, without their prefix. Those that only the role uses begin with two underscores."""

    def __init__(self, role, templar, task_vars):
        self._role, self._templar, self._task_vars = role, templar, task_vars

    def __call__(self, name):
        """Return the value of a variable."""
        hidden = "__" if name.startswith("__") else ""
        return plain(self._templar.template(self._task_vars[f"{hidden}{self._role}_{name.lstrip('_')}"]))


def plain(value):
    """Return the value with the types of Python. A date, or a text from a vault, is a text."""
    if isinstance(value, Mapping):
        return {plain(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return None if value is None else str(value)
