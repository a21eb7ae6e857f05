# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The code blocks of the documents, and their marks.

A mark is an HTML comment in the line before a block, so that neither a forge nor the site shows it:

- ``run: lab``: tests/integration/playbooks/test_command_blocks.py runs the block;
- ``run: kind`` and ``run: kind with a second scheduler``: the scenario `lifecycle` runs the block by tests/molecule/kind_blocks.py;
- ``run: PATH``: the test in this file runs the block;
- ``not run: REASON``;
- ``output``, before a block of text: the output of the block before it, see :func:`missing_output`.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tools.paths import ROOT

COMMANDS = {"sh", "console"}
"""The languages of blocks with commands. In a console block they are the lines after a prompt."""
LAB, OUTPUT = "run: lab", "output"
KIND = {"installed": "run: kind", "scheduler": "run: kind with a second scheduler"}
"""The marks for the scenario `lifecycle`, by the part of the scenario in which the blocks are run."""
BLOCK = re.compile(
    r"^(?:(?P<comment> *<!-- (?P<mark>[^\n]*) -->)\n)?(?P<indent> *)```(?P<language>[^\n]*)\n(?P<text>.*?)^(?P=indent)```$", re.M | re.S
)
PROMPT = "$ "


@dataclass(frozen=True)
class Block:
    """One code block. ``line``: the number of its first line."""

    document: Path
    line: int
    language: str
    mark: str
    text: str

    @property
    def has_commands(self) -> bool:
        return self.language in COMMANDS

    @property
    def script(self) -> str:
        """The commands of the block for a shell."""
        if self.language != "console":
            return self.text
        return "".join(f"{line.removeprefix(PROMPT)}\n" for line in self.text.splitlines() if line.startswith(PROMPT))

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


def blocks(document: Path) -> list[Block]:
    """Return the code blocks of a document, whose path is relative to the root of the repository."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [
        Block(document, text.count("\n", 0, block.start("text")), block["language"], block["mark"] or "", textwrap.dedent(block["text"]))
        for block in BLOCK.finditer(text)
    ]


def missing_output(expected: str, output: str) -> list[str]:
    """Return the lines of a document's output that the real output does not have in this order.

    ``…`` in a line stands for any characters, and a line with only that for any lines. Spaces at both ends do not count, because Ansible
    indents the texts of tasks.
    """
    rest, missing = iter(output.splitlines()), []
    for line in filter(None, (line.strip() for line in expected.splitlines())):
        pattern = re.compile(".*".join(re.escape(part) for part in line.split("…")))
        if line != "…" and not any(pattern.fullmatch(real.strip()) for real in rest):
            missing.append(line)
    return missing
