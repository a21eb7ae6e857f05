# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Texts for people have no idioms, and docstrings are statements: many readers have another first language than English."""

from __future__ import annotations

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.style.sources import FILES, parsed, report
from tools.paths import ROOT

THIS_FILE = Path(__file__).relative_to(ROOT)
PYTHON = [file for file in FILES if file.suffix == ".py" and file != THIS_FILE]
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
ANY_IDIOM = re.compile(rf"\b(?:{'|'.join(IDIOMS)})", re.IGNORECASE)
CODE = re.compile(r"``.*?``|`[^`\n]+`", re.DOTALL)
CODE_BLOCK = re.compile(r"^ *```.*?^ *```$", re.DOTALL | re.MULTILINE)
DOCUMENTATION = ("DOCUMENTATION", "EXAMPLES", "RETURN")
LINES_OF_THE_LICENCE = 2


class Text(NamedTuple):
    """A text for people. ``kind``: docstring, comment, documentation, message or name of a function."""

    file: Path
    line: int
    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@functools.cache
def python_texts() -> list[Text]:
    """Return the texts of all Python files, each of which is parsed once."""
    return [Text(file, *found) for file in PYTHON for found in texts_of((ROOT / file).read_text(encoding="utf-8"))]


def texts_of(source: str) -> Iterator[tuple[int, str, str]]:
    """Line, kind and text of each docstring, also below a constant, and of each comment, message, name and documentation."""
    yield from ((line, "comment", text) for line, text in comments(source))
    skipped: set[ast.AST] = set()
    for node in ast.walk(parsed(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, "name", node.name.replace("_", " ")
        elif isinstance(node, ast.Expr):
            skipped.add(node.value)
            if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
                yield node.lineno, "docstring", node.value.value
        elif isinstance(node, ast.Assign):
            skipped.add(node.value)
            if isinstance(node.value, ast.Constant) and ast.unparse(node.targets[0]) in DOCUMENTATION:
                entries = re.split(r"\n\s*(?:-|[\w]+:)\s", str(node.value.value))
                yield from ((node.lineno + number, "documentation", entry) for number, entry in enumerate(entries))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value and node not in skipped:
            yield node.lineno, "message", node.value


def comments(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every comment."""
    if source.count("#") > LINES_OF_THE_LICENCE:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def idioms_in(text: str) -> list[str]:
    """The idioms of a text, with what to write in their place; names in backquotes are code."""
    prose = " ".join(CODE.sub("", text).split())
    if not ANY_IDIOM.search(prose):
        return []
    found = ((re.search(rf"\b{pattern}", prose, re.IGNORECASE), better) for pattern, better in IDIOMS.items())
    return [f"{match[0]!r} (better: {better})" if better else repr(match[0]) for match, better in found if match is not None]


def paragraphs(file: Path) -> Iterator[tuple[int, str]]:
    """First line and text of each paragraph of a document in Markdown, without code blocks, or of a YAML file, without number signs."""
    text = (ROOT / file).read_text(encoding="utf-8")
    if file.suffix == ".md":
        text = CODE_BLOCK.sub(lambda block: "\n" * (block[0].count("\n") + 1), text)
    else:
        text = re.sub(r"^[^\S\n]*#+", "", text, flags=re.MULTILINE)
    line = 1
    for paragraph in text.split("\n\n"):
        yield line, paragraph
        line += paragraph.count("\n") + 2


def idioms_of(*kinds: str) -> list[str]:
    """The idioms in the texts of these kinds."""
    return [f"{text}: {idiom}" for text in python_texts() if text.kind in kinds for idiom in idioms_in(text.text)]


def test_docstrings_and_comments_have_no_idiom() -> None:
    report(idioms_of("docstring", "comment"))


def test_docstrings_are_statements() -> None:
    report(f"{text}: {text.text[:60]}" for text in python_texts() if text.kind == "docstring" and QUESTION.match(text.text))


def test_documentation_of_modules_and_plugins_has_no_idiom() -> None:
    report(idioms_of("documentation"))


def test_messages_have_no_idiom() -> None:
    report(idioms_of("message"))


def test_names_of_functions_in_tests_have_no_idiom() -> None:
    names = (text for text in python_texts() if text.kind == "name" and text.file.parts[0] == "tests")
    report(f"{text}: {idiom}" for text in names for idiom in idioms_in(text.text))


def test_documents_and_yaml_files_have_no_idiom() -> None:
    report(f"{file}:{line}: {idiom}" for file in (*DOCUMENTS, *YAML) for line, part in paragraphs(file) for idiom in idioms_in(part))


def test_an_idiom_is_found_across_a_line_break_and_not_in_code() -> None:
    assert idioms_in("The eviction was in\n    vain.") == ["'in vain' (better: without effect)"]
    assert idioms_in("It fits into ``room`` characters.") == []


def test_an_idiom_is_found_with_words_between_its_parts() -> None:
    assert idioms_in("It gives all its nodes back.") == ["'gives all its nodes back' (better: release)"]
    assert idioms_in("The budget lets no pod go.") == ["'lets no pod go' (better: allows, releases)"]


def test_each_text_of_a_file_has_its_kind() -> None:
    source = '"""One."""\nX = 1  # two\nEXAMPLES = "three"\nY = "a b"\n\n\ndef f_g():\n    raise ValueError(f"four {X} five")\n'
    found = texts_of(f"# a\n# b\n{source}")
    assert {(kind, text) for _line, kind, text in found} == {
        *(("comment", "# a"), ("comment", "# b"), ("comment", "# two"), ("docstring", "One."), ("documentation", "three")),
        *(("name", "f g"), ("message", "four "), ("message", " five")),
    }
