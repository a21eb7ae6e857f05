# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scenario `lifecycle` runs each block of commands with its mark, and a command that fails is an error."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.ended_together import namespace_obstacle
from tests.guide_blocks import KIND, Block
from tests.molecule import kind_blocks
from tools.paths import ROOT

SCENARIO = ROOT / "extensions" / "molecule" / "lifecycle"


def block(line: int, text: str) -> Block:
    return Block(Path("guide.md"), line, "sh", KIND["installed"], text)


def test_the_commands_have_the_inventory_and_the_kubeconfig(tmp_path: Path) -> None:
    inventory, found = tmp_path / "hosts.yml", tmp_path / "found"
    inventory.write_text("all: {}\n")
    commands = [block(3, f'cat inventory.yml > {found}\necho "$KUBECONFIG" >> {found}\n')]

    assert kind_blocks.run(commands, inventory=inventory, kubeconfig=tmp_path / "config") == []
    assert found.read_text() == f"all: {{}}\n{tmp_path / 'config'}\n"


def test_a_failed_block_is_named_and_the_next_one_is_run(tmp_path: Path) -> None:
    commands = [block(3, "false\ntrue\n"), block(7, "false | true\n"), block(9, f"touch {tmp_path / 'reached'}\n")]
    failed = kind_blocks.run(commands, inventory=tmp_path, kubeconfig=tmp_path)
    assert failed == ["guide.md:3 ended with exit code 1", "guide.md:7 ended with exit code 1"]
    assert (tmp_path / "reached").exists()


def test_a_block_that_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_blocks, "LIMIT_S", 1)
    assert kind_blocks.run([block(3, "exec sleep 30\n")], inventory=tmp_path, kubeconfig=tmp_path) == ["guide.md:3 did not end within 1 s"]


def test_the_programs_of_a_block_that_does_not_end_are_ended_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if obstacle := namespace_obstacle():
        pytest.skip(f"not run: {obstacle}")
    monkeypatch.setattr(kind_blocks, "LIMIT_S", 0.5)
    late = tmp_path / "late"
    kind_blocks.run(
        [block(3, f"(sleep 1.5; touch {late}) &\nsetsid sh -c 'sleep 1.5; touch {late}' & wait\n")], inventory=tmp_path, kubeconfig=tmp_path
    )
    time.sleep(1.5)
    assert not late.exists()


def test_the_blocks_also_run_where_no_namespace_is_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_blocks, "namespace_obstacle", lambda: "this user cannot make a user namespace")
    assert kind_blocks.run([block(3, "true\n"), block(5, "exit 7\n")], inventory=tmp_path, kubeconfig=tmp_path) == [
        "guide.md:5 ended with exit code 7"
    ]


@pytest.mark.parametrize("part", KIND)
def test_the_scenario_runs_each_part_and_the_part_has_blocks(part: str) -> None:
    tasks = "".join(file.read_text() for file in SCENARIO.rglob("*.yml"))
    assert tasks.count(f"--part={part}") == 1 and "tests.molecule.kind_blocks" in tasks
    assert kind_blocks.blocks_of(part)
