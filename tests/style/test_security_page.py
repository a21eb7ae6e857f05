# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""docs/security.md lists all that the programs may change, and what it says of their rights is true."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.style.sources import tree
from tools import tables
from tools.paths import ROOT

PAGE = (ROOT / tables.CHANGES).read_text()
RIGHTS = [(role, entry) for role in tables.PROGRAMS for _name, entry in tables.permissions(role)]
GRANTING_VERBS = {"bind", "escalate", "impersonate"}
WITH_TESTS = ("## Threats", "## What a mistake can do")
"""The parts of the page whose table names the tests in its last column."""
NO_PROTECTION = "no protection: "
TEST = re.compile(r"\[`(test_\w+)`\]\(\.\./(tests/[\w/]+\.py)\)")


def test_the_table_of_changes_is_present() -> None:
    assert tables.with_changes(PAGE) == PAGE, "run `make tables`"


def test_the_page_covers_each_role_with_rights() -> None:
    assert {file.parents[2].name for file in (ROOT / "roles").glob("*/vars/main/permissions.yml")} == set(tables.PROGRAMS)


def test_each_right_to_change_something_is_in_the_table() -> None:
    changing = [entry for _role, entry in RIGHTS if set(entry["verbs"]) - tables.READ_ONLY]
    rows = tables.changes().removeprefix(tables.CHANGES_HEAD).splitlines()
    assert len(rows) == len(changing) > 0
    assert all(f"`{resource}`" in row for row, entry in zip(rows, changing, strict=True) for resource in entry["resources"])


def test_no_program_reads_secrets_or_grants_rights_or_has_a_wildcard() -> None:
    dangerous = {"*", "secrets", "rbac.authorization.k8s.io", *GRANTING_VERBS}
    assert [(role, entry) for role, entry in RIGHTS if {*entry["resources"], *entry["verbs"], entry["api_group"]} & dangerous] == []


def claims() -> list[tuple[str, str]]:
    """Return each row of the tables of protections: its first column, and the column with the tests."""
    found = []
    for heading in WITH_TESTS:
        part = PAGE.partition(f"{heading}\n")[2].partition("\n## ")[0]
        head, _line, *rows = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")]
        assert head[-1] == "tests" and rows and all(len(row) == len(head) for row in rows)
        found += [(row[0], row[-1]) for row in rows]
    return found


def functions_of(file: Path) -> set[str]:
    return {node.name for node in tree(file).body if isinstance(node, ast.FunctionDef)}


def test_each_protection_names_tests_that_exist() -> None:
    for claim, cell in claims():
        if cell.startswith(NO_PROTECTION):
            continue
        named = TEST.findall(cell)
        assert named and TEST.sub("", cell).strip(", ") == "", f"{claim}: each entry is a link to a test"
        missing = [f"{file}::{name}" for name, file in named if not (ROOT / file).is_file() or name not in functions_of(ROOT / file)]
        assert missing == [], claim
