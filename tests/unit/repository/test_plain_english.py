# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Texts for people have no idioms, and docstrings are statements: many readers have another first language than English."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.paths import ROOT
from tools.working_copy import repository_files

FILES = [ROOT / file for file in repository_files()]
PYTHON = [file for file in FILES if file.suffix == ".py"]
SOURCES = [file for file in PYTHON if file.relative_to(ROOT).parts[0] in ("plugins", "services")]
WITH_STATEMENTS = [file for file in PYTHON if file.relative_to(ROOT).parts[0] in ("plugins", "services", "lab", "tools", "tests")]
MORE_MESSAGES = [file for file in PYTHON if file.relative_to(ROOT).parts[0] in ("lab", "tools", "tests")]
TESTS = [file for file in PYTHON if file.relative_to(ROOT).parts[0] == "tests"]
DOCUMENTS = [file for file in FILES if file.suffix == ".md" and file.name != "CHANGELOG.md"]
YAML = [file for file in FILES if file.suffix in (".yml", ".yaml", ".j2")]
"""Playbooks, roles, scenarios, workflows, settings of tools, and rendered objects."""
QUESTION = re.compile(r"\s*(What|Whether|Why|How|When|Where|Which|Who|Those)\b")
"""The first word of a docstring that is no statement."""
IDIOMS = {
    r"in vain": "without effect",
    r"g(ive|ives|iven|iving|ave)( \w+){0,3} back\b": "release",
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
    r"at once\b": "immediately, at the same time",
    r"all the same\b": "nevertheless",
    r"(someone|somebody)\b": "a user, another client",
    r"is the matter\b": "has a problem",
    r"(goes|go|went|going) on\b(?! PATH)": "continues",
    r"hand(s|ed|ing)? on\b": "pass",
    r"(takes?|taken|took) (off|away)\b": "remove",
    r"let(s|ting)?( \w+){0,3} go\b": "allows, releases",
    r"nothing but\b": "only",
    r"(has|have|is|are) yet to\b": "has not yet",
    r"on (its|their) way out\b": "terminating",
    r"in earnest\b": "without dry run",
    r"promised? (to|no|it|the|whose)\b": "nominated",
    r"(left|leaves?) alone\b": "is not changed",
    r"one's own\b": "separate",
    r"it takes two\b": "at least 2 are needed",
    r"still ending\b": "still terminating",
    r"wins\b|win over\b": "has precedence, overrides",
    r"be told\b": "be distinguished, be given",
    r"(least|less|more|most) important\b": "with a lower priority, with the lowest priority",
    r"look(s|ed|ing)? (at|again|for|into|through|up)\b": "check, find, read",
    r"(a|an|the|one|first|second|next|old|other|another|some|more|two) looks?\b": "check, observation",
    r"(other|another|second|each|running) cop(y|ies)\b": "replica",
    r"cop(y|ies) (of the rescuer|leads?|takes?)\b": "replica",
    r"memories\b": "outcomes, records",
    r"banned\b": "excluded",
}
"""A pattern, and what to write in its place."""
CODE = re.compile(r"``.*?``|`[^`\n]+`", re.DOTALL)
CODE_BLOCK = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
DOCUMENTATION = ("DOCUMENTATION", "EXAMPLES", "RETURN")


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


def documentation(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every entry in the documentation of a module, a plugin or a fragment."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in DOCUMENTATION and isinstance(node.value, ast.Constant):
            text = str(node.value.value)
            yield from ((node.lineno + number, entry) for number, entry in enumerate(re.split(r"\n\s*(?:-|[\w]+:)\s", text)))


def messages(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every string of several words: messages of errors, reasons and logs."""
    tree = ast.parse(source)
    documented = {id(statement.value) for statement in ast.walk(tree) if isinstance(statement, (ast.Assign, ast.Expr))}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value and id(node) not in documented:
            yield node.lineno, node.value


def paragraphs(document: str) -> Iterator[str]:
    """The paragraphs of a document in Markdown, without code blocks."""
    yield from CODE_BLOCK.sub("", document).split("\n\n")


def id_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", PYTHON, ids=id_of)
def test_docstrings_and_comments_have_no_idiom(file: Path) -> None:
    if file == Path(__file__):
        return
    source = file.read_text(encoding="utf-8")
    found = [f"{file.name}:{line}: {idiom}" for line, text in (*docstrings(source), *comments(source)) for idiom in idioms_in(text)]
    assert not found


@pytest.mark.parametrize("file", WITH_STATEMENTS, ids=id_of)
def test_docstrings_are_statements(file: Path) -> None:
    questions = [f"{file.name}:{line}: {text[:60]}" for line, text in docstrings(file.read_text(encoding="utf-8")) if QUESTION.match(text)]
    assert not questions


@pytest.mark.parametrize("file", SOURCES, ids=id_of)
def test_documentation_of_modules_and_plugins_has_no_idiom(file: Path) -> None:
    source = file.read_text(encoding="utf-8")
    assert not [f"{file.name}:{line}: {idiom}" for line, text in documentation(source) for idiom in idioms_in(text)]


@pytest.mark.parametrize("file", [*SOURCES, *MORE_MESSAGES], ids=id_of)
def test_messages_have_no_idiom(file: Path) -> None:
    if file == Path(__file__):
        return
    found = [f"{file.name}:{line}: {idiom}" for line, text in messages(file.read_text(encoding="utf-8")) for idiom in idioms_in(text)]
    assert not found


@pytest.mark.parametrize("file", TESTS, ids=id_of)
def test_names_of_functions_in_tests_have_no_idiom(file: Path) -> None:
    functions = (node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef))
    found = [f"{node.name}: {idiom}" for node in functions for idiom in idioms_in(node.name.replace("_", " ")) if file != Path(__file__)]
    assert not found


@pytest.mark.parametrize("file", [*DOCUMENTS, *YAML], ids=id_of)
def test_documents_and_yaml_files_have_no_idiom(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    parts = paragraphs(text) if file.suffix == ".md" else re.sub(r"^\s*#+", "", text, flags=re.MULTILINE).split("\n\n")
    assert not [f"{file.name}: {idiom} in: {part.strip()[:60]}" for part in parts for idiom in idioms_in(part)]


def test_an_idiom_is_found_across_a_line_break_and_not_in_code() -> None:
    assert idioms_in("The eviction was in\n    vain.") == ["'in vain' (better: without effect)"]
    assert idioms_in("It fits into ``room`` characters.") == []


def test_an_idiom_is_found_with_words_between_its_parts() -> None:
    assert idioms_in("It gives all its nodes back.") == ["'gives all its nodes back' (better: release)"]
    assert idioms_in("The budget lets no pod go.") == ["'lets no pod go' (better: allows, releases)"]
