# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The proposals of the shell completion that need no cluster. Those that do are tested with kubectl in tests/integration/kubectl."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.kubectl_spread.completion import FILES, NO_FILES, NO_SPACE, proposals

from tests.unit.services.kubectl_spread.test_flags import KUBECONFIG


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-o", ""], ["wide", "json", "yaml", "html", "markdown"]),
        (["-o", "w"], ["wide"]),
        (["-A", "--output=j"], ["json"]),
        (["--kind", "S"], ["StatefulSet"]),
        (["--max-skew", ""], []),
        (["-A", ""], ["deployment", "statefulset"]),
        (["-n", "shop", "s"], ["statefulset"]),
        (["nonsense", ""], []),
        ([], ["deployment", "statefulset"]),
        (["--no-such-flag", "-n", ""], []),
    ],
)
def test_values_of_flags(words: list[str], expected: list[str]) -> None:
    found = proposals(words, {})
    assert (list(found.lines), found.directive) == (expected, NO_FILES)


def test_flags_have_their_help() -> None:
    assert [line.split("\t")[0] for line in proposals(["--kub"], {}).lines] == ["--kubeconfig"]
    assert all("\t" in line for line in proposals(["-"], {}).lines)


def test_after_a_kind_with_a_name_another_one_is_proposed_in_the_same_form() -> None:
    assert proposals(["deploy/web", "s"], {}) == (["statefulset/"], NO_SPACE | NO_FILES)


@pytest.mark.parametrize("words", [["--kubeconfig", ""], ["--certificate-authority=/et"], ["--client-key", ""]])
def test_files_are_proposed_by_the_shell(words: list[str]) -> None:
    assert proposals(words, {}) == ((), FILES)


def test_contexts_clusters_and_users_come_from_the_kubeconfig(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    assert list(proposals([f"--kubeconfig={file}", "--context", ""], {}).lines) == ["berlin", "paris"]
    assert list(proposals([f"--kubeconfig={file}", "--context=p"], {}).lines) == ["paris"]
    assert list(proposals([f"--kubeconfig={file}", "--cluster", ""], {}).lines) == ["one", "two"]
    assert list(proposals([f"--kubeconfig={file}", "--user", ""], {}).lines) == ["me", "other"]


def test_without_an_answer_there_are_no_proposals(tmp_path: Path) -> None:
    unreachable = tmp_path / "kubeconfig"
    unreachable.write_text(KUBECONFIG)
    for kubeconfig in ("/nowhere", str(unreachable)):
        found = proposals([f"--kubeconfig={kubeconfig}", "-n", ""], {})
        assert (list(found.lines), found.directive) == ([], NO_FILES)
