# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Each refusal of a restart, and each rule that protects a pod from eviction, is one file with one function of the same name."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.style.sources import tree
from tools.paths import ROOT

MODULE_UTILS = ROOT / "plugins" / "module_utils"
FOLDERS = ("spread/preconditions", "rescue/eviction_rules")
WITHOUT_RULE = {
    "spread/preconditions/restart.py": "calls the refusals of a rollout in their order",
    "spread/preconditions/workload_budgets.py": "the budgets of a workload, for the rules about them",
    "spread/preconditions/admission/pod_resources.py": "the resources of a pod, for the rules about quotas and limit ranges",
    "spread/preconditions/admission/quota_index.py": "the quotas of a namespace, for the rules about them",
    "rescue/eviction_rules/eviction_filter.py": "calls the rules in their order",
}
"""The other files of the folders, and the purpose of each."""

FILES = sorted(str(file.relative_to(MODULE_UTILS)) for folder in FOLDERS for file in (MODULE_UTILS / folder).rglob("*.py"))


def violations_in(file: str) -> list[str]:
    """The public functions of a file that return a reason against an action."""
    body = tree(MODULE_UTILS / file).body
    names = [node.name for node in body if isinstance(node, ast.FunctionDef)]
    return [name for name in names if name.endswith("_violation") and not name.startswith("_")]


def test_a_file_exports_one_rule_of_its_name() -> None:
    found = {file: violations_in(file) for file in FILES if file not in WITHOUT_RULE}
    assert found == {file: [f"{Path(file).stem}_violation"] for file in found}


def test_the_other_files_exist() -> None:
    assert WITHOUT_RULE.keys() <= set(FILES)
