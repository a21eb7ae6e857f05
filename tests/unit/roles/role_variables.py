# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Evaluate the variables and templates of a role without a host, with the templar of Ansible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

try:
    from ansible.template import trust_as_template
except ImportError:  # ansible-core 2.18 trusts each text

    def trust_as_template(value: str) -> str:
        return value


def trusted(value: Any) -> Any:
    """Return a value whose texts Ansible accepts as templates."""
    if isinstance(value, str):
        return trust_as_template(value)
    if isinstance(value, Mapping):
        return {key: trusted(entry) for key, entry in value.items()}
    return [trusted(entry) for entry in value] if isinstance(value, list) else value


def task(role: Path, file: str, name: str) -> dict[str, Any]:
    """Return the task with this name."""
    tasks: list[dict[str, Any]] = yaml.safe_load((role / "tasks" / file).read_text())
    (found,) = [entry for entry in tasks if entry["name"] == name]
    return found


@dataclass(frozen=True)
class RoleVariables:
    """A role, with variables that have precedence over its own."""

    role: Path
    given: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, template: str, **more: Any) -> Any:
        """Return the value of a template, as of a variable of a task."""
        return self._templar(more).template(trust_as_template(template))

    def render(self, name: str) -> str:
        """Return the text that a file of `templates` becomes. Unlike in a variable, a backslash of a file is one of Jinja."""
        text: str = self._templar({}).template(trust_as_template((self.role / "templates" / name).read_text()), escape_backslashes=False)
        return text

    def _templar(self, more: Mapping[str, Any]) -> Templar:
        own: dict[str, Any] = {}
        for folder in ("defaults", "vars"):
            own |= trusted(yaml.safe_load((self.role / folder / "main.yml").read_text()))
        variables = {"role_path": str(self.role), "inventory_hostname": "node-3"}
        return Templar(loader=DataLoader(), variables=variables | own | dict(self.given) | trusted(more))
