# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The site has the documents of the repository, and its links lead to pages that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import docs, site_links
from tools.paths import ROOT

OF_SITE = {"README.md", "docs/rescue.md", "docs/development/README.md", "docs/images/rescue.svg"}
FORGE = "https://github.com/onprem/kube_scheduling"


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("README.md", "docs/rescue.md#permissions", "docs/rescue.md#permissions"),
        ("docs/rescue.md", "../README.md", "../README.md"),
        ("docs/rescue.md", "#permissions", "#permissions"),
        ("docs/rescue.md", "images/rescue.svg", "images/rescue.svg"),
        ("docs/rescue.md", "https://example.org/docs/rescue.md", "https://example.org/docs/rescue.md"),
        ("README.md", "docs/development", "docs/development/README.md"),
        ("README.md", "LICENSE", f"{FORGE}/blob/main/LICENSE"),
        ("docs/rescue.md", "../services/extender/interface.py", f"{FORGE}/blob/main/services/extender/interface.py"),
        ("docs/rescue.md", "../services/extender", f"{FORGE}/tree/main/services/extender"),
    ],
)
def test_a_link_to_a_file_that_is_no_page_leads_to_the_repository(page: str, link: str, expected: str) -> None:
    assert docs.with_site_links(f"See [it]({link}).", Path(page), OF_SITE) == f"See [it]({expected})."


def test_the_navigation_has_no_entry_of_a_page_that_does_not_exist() -> None:
    head = ".. toctree::\n   :hidden:\n\n"
    present = "   Overview <README>\n   docs/rescue\n   reference/index\n"
    assert docs.navigation(f"{head}   docs/nowhere\n   Nowhere <docs/nowhere>\n{present}", OF_SITE) == head + present


def test_each_guide_is_in_the_navigation() -> None:
    of_site = {page.as_posix() for page in docs.pages()}
    text = docs.navigation((docs.SETTINGS / "index.rst").read_text(), of_site)
    named = [entry[1] for entry in docs.ENTRY.finditer(text)]
    assert sorted(named) == sorted([*(page.removesuffix(".md") for page in of_site), "reference/index"])


def test_guides_are_pages_and_the_scenarios_of_tests_are_not() -> None:
    pages = docs.pages()
    assert {Path("README.md"), Path("docs/rebalance.md"), Path("roles/node_exporter/README.md")} <= set(pages)
    assert not any(page.parts[0] == "extensions" for page in pages)
    assert all((ROOT / page).is_file() for page in pages)


@pytest.mark.parametrize(
    ("link", "good"),
    [
        ("other.html", True),
        ("other.html#part", True),
        ("#here", True),
        ("sub/third.html#old%20name", True),
        ("https://example.org/nowhere", True),
        ("mailto:someone@example.org", True),
        ("nowhere.html", False),
        ("other.html#nowhere", False),
        ("#nowhere", False),
        ("sub", False),
    ],
)
def test_a_link_of_the_site_without_a_target_is_found(tmp_path: Path, link: str, good: bool) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "page.html").write_text(f'<p id="here"><a href="{link}">a link</a></p>')
    (tmp_path / "other.html").write_text('<h2 id="part">A part</h2>')
    (tmp_path / "sub" / "third.html").write_text('<a name="old name"></a><img src="../picture.svg">')
    (tmp_path / "picture.svg").write_text("<svg/>")
    assert site_links.problems(tmp_path) == ([] if good else [f"page.html: {link}"])


def test_a_picture_and_a_script_that_do_not_exist_are_found(tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text('<img src="picture.svg"><script src="_static/a.js"></script><link href="a.css">')
    assert site_links.problems(tmp_path) == [f"page.html: {link}" for link in ("picture.svg", "_static/a.js", "a.css")]
