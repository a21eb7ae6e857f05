# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The filters of the roles and of site.yml: durations, lines of a text, reasons of failures, and the state of a Deployment."""

from __future__ import annotations

from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.onprem.kube_scheduling.plugins.filter.duration_seconds import duration_seconds
from ansible_collections.onprem.kube_scheduling.plugins.filter.failure_text import failure_text
from ansible_collections.onprem.kube_scheduling.plugins.filter.text_lines import text_lines
from ansible_collections.onprem.kube_scheduling.plugins.filter.without_logins import without_logins
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.nearest import nearest_name


def test_a_duration_is_read_as_the_settings_of_the_programs_are() -> None:
    assert [duration_seconds(value) for value in (600, "600", "10m", "1m15s", "0m")] == [600, 600, 600, 75, 0]
    with pytest.raises(AnsibleFilterError, match="'soon' is not a duration"):
        duration_seconds("soon")


def test_the_lines_of_a_template_without_text_are_none() -> None:
    assert text_lines("\n  one\n\n two \n") == ["one", "two"] and text_lines(None) == []


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"failed": True, "msg": "no such host"}, "no such host"),
        ({"failed": True}, "unknown error"),
        ({"failed": True, "msg": "non-zero return code", "stderr": "one\ntwo\nthree\nfour\n"}, "two\nthree\nfour"),
        ({"failed": True, "msg": "non-zero return code", "stderr": ""}, "non-zero return code"),
        (
            {
                "failed": True,
                "msg": "MODULE FAILURE: No start of json char found",
                "module_stderr": "Traceback\n  here\nconnection refused\n",
            },
            "connection refused",
        ),
        (
            {
                "failed": True,
                "msg": "One or more items failed",
                "results": [{"msg": "fine"}, {"failed": True, "msg": "a"}, {"failed": True, "msg": "b"}, {"failed": True, "msg": "a"}],
            },
            "a\nb",
        ),
        ({"failed": True, "msg": "unreachable", "results": [{"unreachable": True, "msg": "timed out"}]}, "timed out"),
        ({"failed": True, "msg": "All items were wrong", "results": []}, "All items were wrong"),
        ({"failed": True, "msg": "non-zero return code", "stderr": "", "stdout": "one\ntwo\nthree\nfour\n"}, "two\nthree\nfour"),
        ({"rc": 0, "stdout": "the image is incomplete"}, "the image is incomplete"),
        ({"failed": True, "msg": "no answer from https://me:secret@mirror/x@1"}, "no answer from https://mirror/x@1"),
    ],
)
def test_the_reason_of_a_failed_task_is_the_one_of_its_items_or_its_program(result: dict[str, Any], text: str) -> None:
    assert failure_text(result) == text


def test_the_number_of_lines_of_a_failed_command_can_be_given() -> None:
    result = {"msg": "non-zero return code", "stderr": "one\ntwo\nthree\nfour\nfive\nsix\n"}
    assert failure_text(result, lines=5) == "two\nthree\nfour\nfive\nsix" and failure_text(result, lines=1) == "six"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("https://me:secret@mirror.example.org/a.tar.gz", "https://mirror.example.org/a.tar.gz"),
        ("https://me:p@ss@mirror/a, http://token@[::1]:8080/b", "https://mirror/a, http://[::1]:8080/b"),
        ("https://mirror/x@sha256:1 and a@b", "https://mirror/x@sha256:1 and a@b"),
        ("--index-url=https://me:secret@mirror/simple", "--index-url=https://mirror/simple"),
    ],
)
def test_a_text_without_logins_is_otherwise_the_same(text: str, shown: str) -> None:
    assert without_logins(text) == shown


@pytest.mark.parametrize(("name", "known", "expected"), [("wep", "web", "web"), ("--bogus", "--user", ""), ("nodes", "kinds", "")])
def test_a_name_is_near_only_if_most_of_its_letters_are_the_same(name: str, known: str, expected: str) -> None:
    assert nearest_name(name, [known]) == expected
