# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Docstrings and comments of the collection are statements without idioms: many readers have another first language than English."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.paths import ROOT

SOURCES = sorted(file for folder in ("plugins", "services") for file in (ROOT / folder).rglob("*.py"))
QUESTION = re.compile(r"(What|Whether|Why|How|Where|Those)\b")
"""The first word of a docstring that is no statement."""
IDIOMS = {
    r"in vain": "without effect",
    r"g(ive|ives|iven|iving|ave) back": "release",
    r"stands? (in|above|below)\b": "is in, is listed above",
    r"as important\b": "has the same priority",
    r"what (comes?|came) of": "the result",
    r"newcomers?\b": "new pod",
    r"deeds?\b": "action",
    r"witness(es)?\b": "observer",
    r"at work\b": "running",
    r"blind\b": "without data",
    r"anew\b": "again",
    r"be had\b": "available",
    r"rooms?\b": "folder, or free capacity",
    r"for good\b": "permanently",
    r"by and by\b": "one after the other",
    r"turned down\b": "rejected",
    r"whoever\b": "the caller",
    r"as it were\b": "",
}
"""A pattern, and what to write in its place."""
CODE = re.compile(r"``.*?``|`[^`\n]+`", re.DOTALL)


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every docstring, also of those below constants."""
    for node in ast.walk(ast.parse(source)):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) and isinstance(statement.value.value, str):
                yield statement.lineno, statement.value.value


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every comment."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def idioms_in(text: str) -> list[str]:
    """The idioms of a text, with what to write in their place; names in backquotes are code."""
    prose = " ".join(CODE.sub("", text).split())
    found = ((re.search(rf"\b{pattern}", prose, re.IGNORECASE), better) for pattern, better in IDIOMS.items())
    return [f"{match[0]!r} (better: {better})" if better else repr(match[0]) for match, better in found if match is not None]


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_docstrings_and_comments_have_no_idiom(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    found = [f"{file.name}:{line}: {idiom}" for line, text in (*docstrings(source), *comments(source)) for idiom in idioms_in(text)]
    assert not found


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_docstrings_are_statements(file: Path) -> None:
    questions = [f"{file.name}:{line}: {text[:60]}" for line, text in docstrings(file.read_text(encoding="utf-8")) if QUESTION.match(text)]
    assert not questions


def test_an_idiom_is_found_across_a_line_break_and_not_in_code() -> None:
    assert idioms_in("The eviction was in\n    vain.") == ["'in vain' (better: without effect)"]
    assert idioms_in("It fits into ``room`` characters.") == []
