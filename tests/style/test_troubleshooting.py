# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Each message that docs/troubleshooting.md quotes is a message of the programs, and each reason is one of their codes."""

from __future__ import annotations

import ast
import re

import pytest

from tests.style.sources import report, tree
from tools.paths import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
ROW = re.compile(r"^\| `([^`]+)`(?: \(([^)]*)\))? \|", re.MULTILINE)
QUOTED = ROW.findall(PAGE)
FOLDERS = ("plugins", "services", "playbooks", "roles")
VALUE = "…"
"""Stands for a value in a message: a name, a number or a text of another program."""
FIXED_CHARACTERS = 18
"""The length of the fixed parts of a quoted message. Shorter ones would name several messages."""


def text_of(node: ast.expr) -> str:
    """Return the text of a string of Python, with a sign in place of each value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) if isinstance(part, ast.Constant) else VALUE for part in node.values)
    return VALUE


def docstrings(source: ast.Module) -> set[int]:
    """Return the strings that are statements: texts for readers of the code."""
    return {id(node.value) for node in ast.walk(source) if isinstance(node, ast.Expr)}


def messages_of_python(source: ast.Module) -> set[str]:
    skipped = docstrings(source)
    strings = (node for node in ast.walk(source) if isinstance(node, ast.JoinedStr | ast.Constant) and id(node) not in skipped)
    sums = (node for node in ast.walk(source) if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add))
    return {text_of(node) for node in strings} | {text_of(node.left) + text_of(node.right) for node in sums}


def messages_of_yaml(source: str) -> set[str]:
    """Return the text of a file without its comments and line breaks."""
    lines = (line for line in source.splitlines() if not line.lstrip().startswith("#"))
    return {re.sub(r"\s+", " ", re.sub(r"\{\{.*?\}\}", VALUE, "\n".join(lines), flags=re.DOTALL))}


def all_messages() -> set[str]:
    found = set()
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*")):
            if file.suffix == ".py":
                found |= messages_of_python(tree(file))
            elif file.suffix in (".yml", ".yaml"):
                found |= messages_of_yaml(file.read_text())
    return {re.sub(rf"{VALUE}+", VALUE, text) for text in found}


MESSAGES = all_messages()


def is_a_message(message: str) -> bool:
    """Return whether a program writes the message. A value in it stands for a value of the program, or for more text."""
    parts = [part.strip(" ") for part in message.split(VALUE)]
    pattern = re.compile(".*?".join(map(re.escape, parts)))
    longest = max(parts, key=len)
    return sum(map(len, parts)) >= FIXED_CHARACTERS and any(pattern.search(text) for text in MESSAGES if longest in text)


def test_the_page_quotes_messages() -> None:
    assert len(QUOTED) >= 40


def test_a_quoted_message_is_one_of_the_programs() -> None:
    report(f"no program writes {message!r}" for message, _reason in QUOTED if not is_a_message(message))
    codes = {code.strip("` ") for _message, reason in QUOTED if reason for code in reason.split(",")}
    assert codes - MESSAGES == set()


@pytest.mark.parametrize(
    ("message", "is_one"),
    [
        ("… is paused; resume its rollout first, or use strategy evict_surplus", True),
        ("… is paused; …, or use strategy evict_surplus", True),
        ("… is stopped; resume its rollout first, or use strategy evict_surplus", False),
        ("… is paused", False),
        ("Return the reason why the pod may not be evicted", False),
    ],
)
def test_a_message_that_no_program_writes_is_found(message: str, is_one: bool) -> None:
    assert is_a_message(message) == is_one


def test_values_are_one_sign() -> None:
    source = 'x = f"{name} waits" " for {pods}"\ny = "one " + f"{two}"\n'
    assert {"… waits for {pods}", "one …"} <= messages_of_python(ast.parse(source))
    assert messages_of_yaml("# not this\nmsg: >-\n  {{ host }} is\n  away\n") == {"msg: >- … is away"}
