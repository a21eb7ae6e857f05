# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A variable that a task keeps is never declared in ``vars``, too.

Ansible keeps a registered variable and a fact until its end, for all playbooks of one run, and prefers them to ``vars`` with the same name:
https://docs.ansible.com/ansible/latest/playbook_guide/playbooks_variables.html#understanding-variable-precedence
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from tests.style.sources import FILES
from tools.paths import ROOT

FOLDERS = ("playbooks", "roles", "extensions")
TASKS = [file for file in FILES if file.suffix == ".yml" and file.parts[0] in FOLDERS]
SET_FACT = "ansible.builtin.set_fact"


class AnsibleLoader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Reads the files with the tag of Ansible for texts that are no templates."""


AnsibleLoader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))


def mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """All dictionaries of a YAML document, at any depth."""
    if isinstance(value, dict):
        yield value
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for child in children:
        yield from mappings(child)


def kept_and_declared(document: Any) -> tuple[set[str], set[str]]:
    """The names that tasks of a file keep (``register``, ``set_fact``), and those that its ``vars`` declare."""
    kept: set[str] = set()
    declared: set[str] = set()
    for mapping in mappings(document):
        kept |= {mapping["register"]} if isinstance(mapping.get("register"), str) else set()
        kept |= set(mapping[SET_FACT]) - {"cacheable"} if isinstance(mapping.get(SET_FACT), dict) else set()
        declared |= set(mapping["vars"]) if isinstance(mapping.get("vars"), dict) else set()
    return kept, declared


def test_names_are_found_at_any_depth() -> None:
    text = """
    - vars: {a: 1}
      tasks:
        - block:
            - ansible.builtin.set_fact: {b: 2}
              vars: {c: 3}
          rescue:
            - ansible.builtin.command: {argv: [ls]}
              register: d
    """
    assert kept_and_declared(yaml.safe_load(text)) == ({"b", "d"}, {"a", "c"})


def test_a_kept_variable_is_not_declared() -> None:
    keepers: dict[str, list[str]] = defaultdict(list)
    declarers: dict[str, list[str]] = defaultdict(list)
    for file in TASKS:
        document = yaml.load((ROOT / file).read_text(encoding="utf-8"), AnsibleLoader)
        kept, declared = kept_and_declared(document)
        if file.parent.name in ("vars", "defaults"):
            declared |= set(document or {})
        for names, found in ((kept, keepers), (declared, declarers)):
            for name in names:
                found[name].append(str(file))
    assert keepers and declarers
    assert {name: (files, declarers[name]) for name, files in keepers.items() if name in declarers} == {}
