# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The variables of awx.yml are declared once and in the guide, and the playbooks of the project are those of the job templates."""

from __future__ import annotations

import re

from tools import tables
from tools.paths import ROOT

PLAYBOOK = (ROOT / "playbooks" / "awx.yml").read_text()
OBJECTS = (ROOT / "playbooks" / "vars" / "awx_objects.yml").read_text()
GUIDE = ROOT / "docs" / "awx.md"


def without_comments(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def test_each_variable_that_the_playbook_reads_is_declared_and_each_declared_one_is_read() -> None:
    read = set(re.findall(r"\bawx_setup_[a-z_]+\b", without_comments(PLAYBOOK) + without_comments(OBJECTS))) - {"awx_setup_"}
    assert read == set(tables.variables("awx")["__awx_argument_spec"])


def test_a_default_that_the_playbook_sets_is_the_declared_one() -> None:
    declared = tables.variables("awx")["__awx_argument_spec"]
    given = dict(re.findall(r"\b(awx_setup_[a-z_]+) \| default\('?([\w/]+)'?\)", OBJECTS))
    assert given and {name: str(declared[name]["default"]).lower() for name in given} == {
        name: value.lower() for name, value in given.items()
    }


def test_the_guide_has_the_present_table_of_variables() -> None:
    text = GUIDE.read_text()
    assert tables.with_table(text, "awx") == text, "run `make tables`"


def test_the_guide_names_each_job_template_and_each_playbook_of_the_project_has_one() -> None:
    text = GUIDE.read_text()
    names = set(re.findall(r"^  - name: \"{{ __awx_prefix }}([a-z-]+)\"", OBJECTS, re.MULTILINE))
    assert len(names) == 6 and all(f"| `{name}`" in text for name in names)
    used = set(re.findall(r"{{ __awx_folder }}(\w+\.yml)", OBJECTS))
    assert used == {file.name for file in (ROOT / "awx" / "project").glob("*.yml")}
