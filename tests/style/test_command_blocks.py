# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Each block of commands in a document is run by a test, or says why it is not."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from tests.guide_blocks import COMMANDS, KIND, LAB, OUTPUT, Block, blocks, missing_output
from tests.style.sources import report
from tools import docs
from tools.paths import ROOT

BLOCKS = [block for page in docs.pages() for block in blocks(page)]
WITH_COMMANDS = [block for block in BLOCKS if block.has_commands]
OTHER_LANGUAGES = {"dockerfile", "ini", "json", "mermaid", "python", "text", "toml", "yaml"}
BEGINS_LIKE_A_COMMAND = re.compile(
    r"^(\$ |(ansible|ansible-\w+|curl|docker|git|helm|kubectl|make|pip|podman|python3?|\.venv/bin/\S+) [\w-])", re.M
)
INDENTED_COMMAND = re.compile(r"\n\n    (ansible|kubectl|make|pip|python)\b")
WORDS_OF_A_REASON = 2
ACTING = re.compile(r"\b(rebalance|after_maintenance|rebalancer|k8s_rollout_restart)\b|--tags[ =]rebalance")
ANY_NAMESPACE = re.compile(r"namespace_annotation['\"]?\s*[=:]\s*(''|\"\"|\\\"\\\"|$|[\s,}])")


def mark_violation(block: Block) -> str:
    """Return the reason why the mark of a block of commands is wrong, or an empty text."""
    kind, _colon, rest = (part.strip() for part in block.mark.partition(":"))
    if block.mark in {LAB, *KIND.values()}:
        return ""
    if kind == "not run":
        return "" if len(rest.split()) >= WORDS_OF_A_REASON else "the mark has no reason"
    if kind != "run":
        return "the block has no mark: write <!-- run: lab -->, <!-- run: PATH --> or <!-- not run: REASON --> in the line before it"
    test = ROOT / rest
    if not rest.startswith("tests/") or not test.is_file():
        return f"there is no test {rest}"
    names = (block.document.as_posix(), block.document.name)
    return "" if any(name in test.read_text() for name in names) else f"{rest} does not read {block.document}"


def test_there_are_blocks_of_each_kind() -> None:
    kinds = {block.mark.partition(":")[0] for block in WITH_COMMANDS}
    assert {"run", "not run"} <= kinds and {LAB, *KIND.values()} <= {block.mark for block in WITH_COMMANDS}


def test_a_block_of_commands_has_a_mark() -> None:
    report(f"{block}: {violation}" for block in WITH_COMMANDS if (violation := mark_violation(block)))


@pytest.mark.parametrize(
    ("mark", "violation"),
    [
        ("run: lab", ""),
        ("run: kind", ""),
        ("run: kind with a second scheduler", ""),
        ("not run: needs a registry", ""),
        ("run: tests/integration/playbooks/test_readme.py", ""),
        ("", "the block has no mark"),
        ("SPDX-License-Identifier: GPL-3.0-or-later", "the block has no mark"),
        ("not run:", "the mark has no reason"),
        ("not run: later", "the mark has no reason"),
        ("run: kind with a registry", "there is no test kind with a registry"),
        ("run: tests/nowhere.py", "there is no test tests/nowhere.py"),
        ("run: tests/guide_blocks.py", "tests/guide_blocks.py does not read README.md"),
    ],
)
def test_a_wrong_mark_is_found(mark: str, violation: str) -> None:
    found = mark_violation(Block(Path("README.md"), 1, "sh", mark, "kubectl get nodes\n"))
    assert found.startswith(violation) and bool(found) == bool(violation)


def test_a_block_names_its_language() -> None:
    report(f"{block}: the language {block.language!r}" for block in BLOCKS if block.language not in COMMANDS | OTHER_LANGUAGES)


def test_a_block_of_text_has_no_commands() -> None:
    """Commands in a block of text would have no mark."""
    texts = (block for block in BLOCKS if block.language == "text")
    report(f"{block}: {found[0]!r}" for block in texts if (found := BEGINS_LIKE_A_COMMAND.search(block.text)))


def test_commands_are_in_a_block_with_a_language() -> None:
    report(f"{page}: {found[0].strip()!r}" for page in docs.pages() if (found := INDENTED_COMMAND.search((ROOT / page).read_text())))


def test_the_mark_of_an_output_is_before_a_block_of_text_after_commands() -> None:
    for before, block in itertools.pairwise(BLOCKS):
        if block.mark == OUTPUT:
            assert block.language == "text" and before.mark == LAB and before.document == block.document, str(block)


def test_a_block_is_read_with_its_mark_and_its_line(tmp_path: Path) -> None:
    document = tmp_path / "guide.md"
    document.write_text("# Guide\n\n1. Step:\n\n   <!-- run: lab -->\n   ```sh\n   make lab-up\n     ls\n   ```\n\n```text\nout\n```\n")
    first, second = blocks(document)
    assert (first.line, first.language, first.mark, first.text) == (6, "sh", "run: lab", "make lab-up\n  ls\n")
    assert (second.line, second.language, second.mark, second.text) == (11, "text", "", "out\n")


def test_the_commands_of_a_console_are_the_lines_after_a_prompt() -> None:
    block = Block(Path("README.md"), 1, "console", LAB, "$ kubectl get nodes\nNAME\n$ ls\n")
    assert block.script == "kubectl get nodes\nls\n"


@pytest.mark.parametrize(
    ("expected", "missing"),
    [
        ("one\nthree\n", []),
        ("  one\n", []),
        ("t…ee\n", []),
        ("one\n…\nthree\n", []),
        ("three\none\n", ["one"]),
        ("two and\n", ["two and"]),
        ("four\n", ["four"]),
    ],
)
def test_output_that_is_missing_is_found(expected: str, missing: list[str]) -> None:
    assert missing_output(expected, "    one\ntwo\nthree\n") == missing


def acts_on_any_namespace(command: str) -> bool:
    """Return whether the command can restart workloads of all namespaces, perhaps without one of its flags."""
    return bool(ACTING.search(command) and ANY_NAMESPACE.search(command))


def test_no_command_restarts_workloads_of_all_namespaces_without_one_of_its_flags() -> None:
    commands = ((block, line) for block in WITH_COMMANDS for line in block.script.replace("\\\n", " ").splitlines())
    report(f"{block}: {line}" for block, line in commands if acts_on_any_namespace(line))


@pytest.mark.parametrize(
    ("command", "acts"),
    [
        ("ansible-playbook playbooks/rebalance.yml --tags check -e rebalance_namespace_annotation=", True),
        ("ansible-playbook onprem.kube_scheduling.rebalance --check -e rebalance_namespace_annotation= -e rebalance_kubeconfig=x", True),
        ('ansible-playbook onprem.kube_scheduling.after_maintenance -e \'{"rebalance_namespace_annotation": ""}\' --check', True),
        ("ansible localhost -m onprem.kube_scheduling.k8s_spread_check -a \"namespace_annotation=''\"", False),
        ("ansible-playbook onprem.kube_scheduling.rebalance -e rebalance_namespace_annotation=spread=yes", False),
        ("ansible-playbook onprem.kube_scheduling.rebalance --check", False),
    ],
)
def test_a_command_for_all_namespaces_is_found(command: str, acts: bool) -> None:
    assert acts_on_any_namespace(command) == acts
