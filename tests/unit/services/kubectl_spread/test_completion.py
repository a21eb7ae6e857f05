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


@pytest.mark.parametrize("flag", ["--help", "-h", "--version"])
@pytest.mark.parametrize("words", [[""], ["-n", ""], ["deploy", ""], ["--context", ""]])
def test_after_a_flag_that_ends_the_program_nothing_is_proposed(capsys: pytest.CaptureFixture[str], flag: str, words: list[str]) -> None:
    """cobra proposes nothing after these flags either."""
    assert proposals([flag, *words], {}) == ((), NO_FILES)
    assert capsys.readouterr().out == ""


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


def test_a_name_with_control_characters_is_not_proposed(tmp_path: Path) -> None:
    """Each line is a proposal, a tab begins its description, and a colon in the last line a directive."""
    file = tmp_path / "kubeconfig"
    names = [r"paris\n:1\npairs", r"paris\thelp", r"\e[31mparis", "pärís"]
    contexts = "".join(f'- {{name: "{name}", context: {{cluster: one, user: me}}}}\n' for name in names)
    file.write_text(KUBECONFIG + contexts)
    assert list(proposals([f"--kubeconfig={file}", "--context", ""], {}).lines) == ["berlin", "paris", "pärís"]


def test_without_an_answer_there_are_no_proposals(tmp_path: Path) -> None:
    unreachable = tmp_path / "kubeconfig"
    unreachable.write_text(KUBECONFIG)
    for kubeconfig in ("/nowhere", str(unreachable)):
        found = proposals([f"--kubeconfig={kubeconfig}", "-n", ""], {})
        assert (list(found.lines), found.directive) == ([], NO_FILES)
