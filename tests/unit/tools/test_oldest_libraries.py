# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requirements with the oldest allowed versions."""

from __future__ import annotations

import re

from tools.oldest_libraries import PARTS, TEST_TOOLS, requirements
from tools.paths import ROOT


def names_in(text: str) -> set[str]:
    return set(re.findall(r"^([\w.-]+)", text, re.MULTILINE))


def test_each_library_and_each_tool_has_one_version() -> None:
    for part in PARTS.values():
        lines = list(requirements(part.requirements))
        found = [line.partition("==")[0] for line in lines if "python_version" not in line]
        wanted = set().union(*(names_in(file.read_text()) for file in part.requirements))
        assert set(found) | {"ansible-core"} == wanted | set(TEST_TOOLS) and len(found) == len(set(found))
        assert all(re.match(r"[\w.-]+==[\w.]+", line) for line in lines)


def test_the_extender_has_its_own_bounds() -> None:
    of = {name: dict(line.split("==", 1) for line in requirements(part.requirements)) for name, part in PARTS.items()}
    assert of["collection"]["urllib3"] < of["extender"]["urllib3"]
    assert "numpy" in of["extender"] and "numpy" not in of["collection"]


def test_the_tests_of_the_parts_exist() -> None:
    for part in PARTS.values():
        for name in (*part.unit, *part.integration):
            path = ROOT / name.removeprefix("--ignore=")
            assert path.is_file() or any(path.rglob("test_*.py")), name
