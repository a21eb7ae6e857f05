# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The count of lines of code."""

from __future__ import annotations

import pytest

from tools.line_counts import code_lines, extender_files

SOURCE = '''"""A docstring
of two lines."""

DOCUMENTATION = """
options: {}
"""
TEXT = """
two lines
"""


def one(argument):
    """Return it."""
    # why
    return (
        argument  # a comment
    )
'''


@pytest.mark.parametrize(("source", "lines"), [("", 0), ("\n# a comment\n", 0), ("x = 1; y = 2\n", 1), (SOURCE, 7)])
def test_only_lines_with_code_count(source: str, lines: int) -> None:
    assert code_lines(source) == lines


def test_a_shared_file_counts_only_if_no_other_program_imports_it() -> None:
    names = {str(file.relative_to(file.parents[1])) for file in extender_files() if file.parent.name == "common"}
    assert "common/allocator.py" in names and "common/log.py" not in names
