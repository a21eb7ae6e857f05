# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes the tables of the playbooks' variables into the guides, from the argument specs in playbooks/vars."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tools.errors import ToolError, exit_with
from tools.paths import ROOT

GUIDES = {"rebalance": "docs/rebalance.md", "rescue": "docs/rescue.md"}
"""The guide with the table, by the name of the playbook."""

HEAD = "| variable | default | meaning |\n|---|---|---|\n"


def main() -> int:
    for playbook, guide in GUIDES.items():
        file = ROOT / guide
        file.write_text(with_table(file.read_text(), playbook))
    return 0


def with_table(text: str, playbook: str) -> str:
    """Return the text of a guide with the present table between its two marks."""
    start, end = f"<!-- variables of {playbook}.yml: `make tables` writes them -->\n", "<!-- end of variables -->\n"
    before, found, rest = text.partition(start)
    _old, ended, after = rest.partition(end)
    if not found or not ended:
        raise ToolError(f"{GUIDES[playbook]} has no place for the variables: add the lines {start.strip()} and {end.strip()}")
    return f"{before}{start}\n{table(playbook)}\n{end}{after}"


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
        return "unset"
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
