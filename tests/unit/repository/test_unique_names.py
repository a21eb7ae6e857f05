# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""No public name means two things in two files of ``plugins`` and ``services``."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator

from tools.paths import ROOT
from tools.working_copy import repository_files

SAME_ROLE = {
    "ActionModule": "Ansible loads a class of this name from each action plugin",
    "FilterModule": "Ansible loads a class of this name from each file of filters",
    "ModuleDocFragment": "Ansible loads a class of this name from each file of documentation",
    "argument_spec": "the options of a module, in each module",
    "main": "the entry point of a module or program, in each of them",
    "pre_filter": "the check of a pod for all nodes, in each filter of the scheduler",
    "pre_score": "the score of a pod for all nodes, in score plugins of the scheduler",
    "rescue_totals": "the filter of this name calls the function of this name",
    "Settings": "the settings of a service, in each service",
    "read_settings": "reads the settings of a service, in each service",
    "Metrics": "the metrics of a service, in each service",
    "Handler": "receives the body of a request of the scheduler, and returns the body of the answer",
    "Json": "a decoded JSON object",
}
"""The names that several files may define, and the one meaning that each has in all of them."""

FILES = [file for file in repository_files() if file.suffix == ".py" and file.parts[0] in ("plugins", "services")]
TYPE_NAME = re.compile(r"[A-Z]\w*[a-z]")


def public_names(source: str) -> Iterator[str]:
    """The classes, functions and aliases of types at the top level of a file. Constants belong to their file."""
    for node in ast.parse(source).body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            names = [node.name]
        elif isinstance(node, ast.Assign):
            names = [target.id for target in node.targets if isinstance(target, ast.Name) and TYPE_NAME.match(target.id)]
        else:
            names = []
        yield from (name for name in names if not name.startswith("_"))


def files_by_name() -> dict[str, list[str]]:
    """The files that define each public name."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in FILES:
        for name in set(public_names((ROOT / file).read_text(encoding="utf-8"))):
            found[name].append(str(file))
    return found


def test_a_public_name_has_one_meaning() -> None:
    repeated = {name: files for name, files in files_by_name().items() if len(files) > 1 and name not in SAME_ROLE}
    assert not repeated


def test_each_allowed_name_is_in_several_files() -> None:
    found = files_by_name()
    assert not [name for name in SAME_ROLE if len(found[name]) < 2]


def test_classes_functions_and_aliases_of_types_are_found() -> None:
    source = "class Report: ...\nasync def run(): ...\ndef _own(): ...\nRows = list[int]\nLIMIT = 3\nT = TypeVar('T')\n"
    assert list(public_names(source)) == ["Report", "run", "Rows"]
