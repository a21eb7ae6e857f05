# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The page of measurements, whose parts are written apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import page


def test_a_part_leaves_the_other_as_it_is() -> None:
    both = page.replaced(page.replaced("", "rescue", "## Rescues\n\nfast"), "spread", "## The spread check\n\nslow")
    again = page.replaced(both, "rescue", "## Rescues\n\nfaster")
    assert again == both.replace("fast", "faster") and both.index("slow") < both.index("fast")


def test_a_part_whose_name_begins_with_the_name_of_another_one_is_not_changed() -> None:
    both = page.replaced(page.replaced("", "extender", "## The extender\n\nslow"), "extender-binding", "## Pods bound per second\n\nmany")
    assert page.replaced(both, "extender", "## The extender\n\nfast") == both.replace("slow", "fast")


def test_the_same_section_changes_nothing() -> None:
    once = page.replaced("", "spread", "## The spread check\n\nslow")
    assert page.replaced(once, "spread", "## The spread check\n\nslow") == once


def test_what_is_written_goes_into_the_page_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = page.PAGE.read_text(encoding="utf-8")
    copy = tmp_path / "benchmarks.md"
    copy.write_text(before, encoding="utf-8")
    monkeypatch.setattr(page, "PAGE", copy)
    page.write("rescue", "## Rescues\n\nnew")
    after = copy.read_text(encoding="utf-8")
    mark = "<!-- part: "
    parts_before, parts_after = ({part.partition(" ")[0]: part.strip() for part in text.split(mark)} for text in (before, after))
    assert parts_after == {**parts_before, "rescue": "rescue -->\n## Rescues\n\nnew"} and parts_before.keys() >= set(page.PARTS)


def test_a_goal_says_what_was_reached() -> None:
    assert page.goal(300.4, 300, "ms") == "missed: 300 ms, limit 300 ms"
    assert page.goal(0.94, 1, "s", digits=2) == "met: 0.94 s, limit 1.00 s"
