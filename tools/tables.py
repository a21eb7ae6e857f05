# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes tables into the guides: the variables of playbooks, the rights of the roles' programs, and the states of a rescue."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from tools.errors import ToolError, exit_with
from tools.paths import ROOT
from tools.rescue_states import states_text

GUIDES = {
    "after_maintenance": "docs/after-maintenance.md",
    "awx": "docs/awx.md",
    "rebalance": "docs/rebalance.md",
    "rescue": "docs/rescue.md",
    "site": "docs/install.md",
}
"""The guide with the table, by the name of the playbook."""

RIGHTS = {
    "critical_rescuer": "docs/rescuer.md",
    "extended_scheduler": "docs/scheduler-profiles.md",
    "spread_cronjob": "docs/install.md",
}
"""The guide with the rights of a role's program, by the name of the role. They are in vars/main/permissions.yml of the role."""

CHANGES = "docs/security.md"
"""The page with all that the programs of the roles may change."""

PLACES = {
    "_in_namespaces": "each of `namespaces`",
    "_with_scheduler_config": "that of each ConfigMap in `scheduler_config`",
    "_with_windows": "only with `respect_windows` or `scheduler_config`",
}
"""The place of the rights in a list with such a name. Other rights have a namespace, or apply to the whole cluster."""

INSTALLING_RIGHTS = {
    "site": ("docs/install.md", {"__site_rights": ""}),
    "scheduler": (
        "docs/scheduler-profiles.md",
        {"__site_scheduler_rights": "", "__site_scheduler_removal_rights": "to remove the scheduler or a profile"},
    ),
}
"""The guide with the rights of a playbook's user, and the lists with them, by the name of the playbook. The text is for a whole list."""

STATES = "docs/development/architecture.md"
"""The page with the states of a rescue."""

CHANGES_HEAD = "| program | resources | verbs | namespace | |\n|---|---|---|---|---|\n"
PROGRAMS = {"spread_cronjob": "rebalancer", "critical_rescuer": "rescuer", "extended_scheduler": "scheduler"}
OTHER_PROGRAMS = {"_of_extenders": "extender", "_to_learn": "extender"}
"""The program of the rights in a list with such a name, if it is not the first one of the role."""

READ_ONLY = {"get", "list", "watch"}
RIGHTS_HEAD = "| resources | verbs | namespace | |\n|---|---|---|---|\n"
HEAD = "| variable | default | meaning |\n|---|---|---|\n"


def main() -> int:
    for playbook, guide in GUIDES.items():
        file = ROOT / guide
        file.write_text(with_table(file.read_text(), playbook))
    for role, guide in RIGHTS.items():
        file = ROOT / guide
        file.write_text(with_rights(file.read_text(), role))
    for playbook, (guide, _lists) in INSTALLING_RIGHTS.items():
        file = ROOT / guide
        file.write_text(with_installing_rights(file.read_text(), playbook))
    for page, with_part in ((CHANGES, with_changes), (STATES, with_states)):
        file = ROOT / page
        file.write_text(with_part(file.read_text()))
    return 0


def with_table(text: str, playbook: str) -> str:
    """Return the text of a guide with the present table between its two marks."""
    start, end = f"<!-- variables of {playbook}.yml: `make tables` writes them -->\n", "<!-- end of variables -->\n"
    return _between(text, start, end, table(playbook), GUIDES[playbook])


def with_rights(text: str, role: str) -> str:
    """Return the text of a guide with the present rights of a role's program between its two marks."""
    start, end = f"<!-- rights of {role}: `make tables` writes them -->\n", "<!-- end of rights -->\n"
    return _between(text, start, end, rights(role), RIGHTS[role])


def with_installing_rights(text: str, playbook: str) -> str:
    """Return the text of a guide with the present rights of the user of a playbook between its two marks."""
    start, end = f"<!-- rights of {playbook}.yml: `make tables` writes them -->\n", f"<!-- end of rights of {playbook}.yml -->\n"
    guide, lists = INSTALLING_RIGHTS[playbook]
    declared = variables("site")
    entries = [{"only": only, **entry} for name, only in lists.items() for entry in declared[name]]
    return _between(text, start, end, RIGHTS_HEAD + "".join(map(_installing_right, entries)), guide)


def with_changes(text: str) -> str:
    """Return the text of the page about security with the present table of all that the programs may change."""
    start, end = "<!-- changes of the programs: `make tables` writes them -->\n", "<!-- end of changes -->\n"
    return _between(text, start, end, changes(), CHANGES)


def _installing_right(entry: dict[str, Any]) -> str:
    group = f" of {entry['group']}" if entry["group"] else ""
    names = f" named {', '.join(f'`{name}`' for name in entry['names'])}" if "names" in entry else ""
    # Namespaces that depend on the settings are in `only`.
    given = entry.get("namespaces", [])
    where = ", ".join(f"`{_variable(name)}`" for name in given) if isinstance(given, list) else ""
    resources = ", ".join(f"`{resource}`" for resource in entry["resources"])
    return f"| {resources}{group}{names} | {', '.join(entry['verbs'])} | {where} | {entry.get('only', '')} |\n"


def _variable(namespace: str) -> str:
    """Return the name of the variable that a namespace is, or the namespace itself."""
    found = re.fullmatch(r"{{ (?:__)?(\w+).*}}", namespace)
    return found[1] if found else namespace


def with_states(text: str) -> str:
    """Return the text of the page with the present states of a rescue between its two marks."""
    return _between(text, "<!-- states of a rescue: `make tables` writes them -->\n", "<!-- end of states -->\n", states_text(), STATES)


def _between(text: str, start: str, end: str, table_text: str, guide: str) -> str:
    before, found, rest = text.partition(start)
    _old, ended, after = rest.partition(end)
    if not found or not ended:
        raise ToolError(f"{guide} has no place for a table: add the lines {start.strip()} and {end.strip()}")
    return f"{before}{start}\n{table_text}\n{end}{after}"


def rights(role: str) -> str:
    """Return the table of the rights of a role's program in Markdown."""
    return RIGHTS_HEAD + "".join(_right(entry, name) for name, entry in permissions(role))


def changes() -> str:
    """Return the table of the rights with which the programs of all roles can change a cluster, in Markdown."""
    found = ((OTHER_PROGRAMS.get(name, first), name, entry) for role, first in PROGRAMS.items() for name, entry in permissions(role))
    rows = ((program, name, [verb for verb in entry["verbs"] if verb not in READ_ONLY], entry) for program, name, entry in found)
    return CHANGES_HEAD + "".join(f"| {program} {_right({**entry, 'verbs': verbs}, name)}" for program, name, verbs, entry in rows if verbs)


def permissions(role: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the rights of a role's programs, each with the last part of the name of its list."""
    lists: dict[str, Any] = yaml.safe_load(Path(ROOT, "roles", role, "vars", "main", "permissions.yml").read_text())
    return [(name.removeprefix(f"__{role}_permissions"), entry) for name, entries in lists.items() for entry in entries]


def _right(entry: dict[str, Any], name: str) -> str:
    resources = ", ".join(f"`{resource}`" for resource in entry["resources"])
    names = f" named {', '.join(f'`{name}`' for name in entry['names'])}" if "names" in entry else ""
    where = f"`{entry['namespace']}`" if "namespace" in entry else PLACES.get(name, "")
    why = "; ".join(entry[key] for key in ("why", "rare") if key in entry)
    group = f" of {entry['api_group']}" if entry["api_group"] else ""
    return f"| {resources}{group}{names} | {', '.join(entry['verbs'])} | {where} | {why} |\n"


def table(playbook: str) -> str:
    """Return the table of a playbook's variables in Markdown."""
    declared = variables(playbook)
    spec, minima = declared[f"__{playbook}_argument_spec"], declared[f"__{playbook}_minima"]
    return HEAD + "".join(f"| `{name}` | {_default(entry)} | {_meaning(entry, minima.get(name))} |\n" for name, entry in spec.items())


def variables(playbook: str) -> dict[str, Any]:
    """Return the file in playbooks/vars that declares a playbook's variables."""
    found: dict[str, Any] = yaml.safe_load(Path(ROOT, "playbooks", "vars", f"{playbook}.yml").read_text())
    return found


def _default(entry: dict[str, Any]) -> str:
    if "default" not in entry:
        return "required" if entry.get("required") else "unset"
    value = entry["default"]
    if isinstance(value, list):
        value = f"[{', '.join(value)}]"
    text = value if isinstance(value, str) and value else json.dumps(value)
    return f"`{text.replace('{{ inventory_hostname }}', '<host>')}`"


def _meaning(entry: dict[str, Any], minimum: int | None) -> str:
    words = [entry["description"].strip()]
    if "choices" in entry:
        *others, last = (f"`{choice}`" for choice in entry["choices"])
        words.append(f"Choices: {', '.join(others)} and {last}.")
    if minimum is not None:
        words.append(f"At least {minimum}.")
    return " ".join(words).replace("|", "\\|")


if __name__ == "__main__":
    exit_with(main, "make tables")
