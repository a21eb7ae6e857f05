# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pages of the site, which `make docs` builds, in a real browser: light and dark, wide and narrow."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.browser.browser import Page
from tools.docs import HTML
from tools.paths import ROOT

PAGES = sorted(file.relative_to(HTML).as_posix() for file in HTML.rglob("*.html"))
WITH_DIAGRAMS = [name for name in PAGES if 'class="mermaid"' in (HTML / name).read_text()]
PICTURES = sorted((ROOT / "docs" / "images").glob("*.svg"))
NARROW, WIDE = (360, 700), (1300, 900)
THEMES = ("light", "dark")
DRAWN_WITHIN_S = 30.0
WIDTHS = "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
CONTRAST = """
(element => {
  const light = colour => colour.match(/[0-9.]+/g).slice(0, 3).map(Number)
    .map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  const [text, page] = [light(getComputedStyle(element).color), light(getComputedStyle(document.body).backgroundColor)];
  return (Math.max(text, page) + 0.05) / (Math.min(text, page) + 0.05);
})(document.querySelector('article p'))
"""
"""The contrast of a paragraph's text as WCAG 2 defines it."""
LEAST_CONTRAST = 7.0


@pytest.fixture(autouse=True)
def _is_built() -> None:
    assert PAGES, f"{HTML} has no page: run `make docs` first"


def show(page: Page, name: str, size: tuple[int, int] = WIDE, theme: str = "light") -> None:
    page.set_screen(*size, dark=theme == "dark")
    page.open((HTML / name).as_uri())


@pytest.mark.parametrize("name", PAGES)
def test_a_page_on_a_narrow_screen_has_no_problem_and_does_not_scroll_sideways(page: Page, name: str) -> None:
    show(page, name, NARROW)
    content, screen = page.value(WIDTHS)
    assert content <= screen
    assert page.problems == []


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", ["index.html", "docs/rebalance.html", "reference/k8s_spread_check_module.html"])
def test_text_is_readable_in_the_light_and_in_the_dark_theme(page: Page, name: str, theme: str) -> None:
    show(page, name, theme=theme)
    assert page.value(CONTRAST) >= LEAST_CONTRAST


def test_there_are_diagrams() -> None:
    assert "docs/network-aware-scheduling.html" in WITH_DIAGRAMS


@pytest.mark.parametrize("name", WITH_DIAGRAMS)
def test_diagrams_are_drawn(page: Page, name: str) -> None:
    if not (HTML / "_static" / "mermaid.tiny.js").exists():
        pytest.skip("not run: `make docs` could not download Mermaid")
    show(page, name)
    deadline_s = time.monotonic() + DRAWN_WITHIN_S
    while not page.value("document.body.dataset.diagrams === 'drawn'"):
        assert time.monotonic() < deadline_s and page.problems == []
        time.sleep(0.1)
    drawn = "[...document.querySelectorAll('pre.mermaid')].map(one => one.querySelectorAll('svg').length)"
    counts = page.value(drawn)
    assert counts and set(counts) == {1}
    assert "Syntax error" not in page.text()


def test_the_navigation_leads_from_the_first_page_to_the_reference_of_a_module(page: Page) -> None:
    show(page, "index.html")
    links = "[...document.querySelectorAll('.sidebar-tree a')]"
    loads = page.loads
    page.value(f"{links}.find(one => one.innerText.startsWith('Modules')).click()")
    page.wait_load(loads)
    assert "k8s_spread_check module" in page.text()
    loads = page.loads
    page.value("[...document.querySelectorAll('article a')].find(one => one.innerText.startsWith('k8s_spread_check')).click()")
    page.wait_load(loads)
    assert page.value("document.title").startswith("onprem.kube_scheduling.k8s_spread_check")


def test_the_search_finds_a_reason(page: Page) -> None:
    page.set_screen(*WIDE, dark=False)
    page.open(f"{(HTML / 'search.html').as_uri()}?q=limit_reached")
    deadline_s = time.monotonic() + DRAWN_WITHIN_S
    results = "[...document.querySelectorAll('#search-results a')].map(one => one.getAttribute('href').split('#')[0].split('?')[0])"
    while "docs/rebalance.html" not in page.value(results):
        assert time.monotonic() < deadline_s, page.text()
        time.sleep(0.1)


TEXTS = """
(() => {
  const light = colour => colour.match(/[0-9.]+/g).slice(0, 3).map(Number)
    .map(part => part / 255).map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  const boxes = [...document.querySelectorAll('rect')];
  return [...document.querySelectorAll('text')].map(text => {
    const box = text.getBBox(), x = box.x + box.width / 2, y = box.y + box.height / 2;
    const below = boxes.map(one => [one, one.getBBox()])
      .filter(([one, area]) => area.x <= x && x <= area.x + area.width && area.y <= y && y <= area.y + area.height).pop();
    const fits = below[1].x <= box.x && box.x + box.width <= below[1].x + below[1].width;
    const colours = [light(getComputedStyle(text).fill), light(getComputedStyle(below[0]).fill)];
    return [text.textContent, fits, (Math.max(...colours) + 0.05) / (Math.min(...colours) + 0.05)];
  });
})()
"""
"""For each text of a picture: the text, whether it fits into the box below it, and its contrast with that box."""


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("picture", PICTURES, ids=lambda picture: picture.stem)
def test_the_texts_of_a_picture_fit_into_their_boxes_and_are_readable(page: Page, picture: Path, theme: str) -> None:
    page.set_screen(*WIDE, dark=theme == "dark")
    page.open(picture.as_uri())
    texts = page.value(TEXTS)
    assert texts
    assert [text for text, fits, contrast in texts if not fits or contrast < LEAST_CONTRAST] == []


def test_no_page_asks_a_server() -> None:
    """The site works without the internet."""
    outside = ('src="http', "url(http", 'rel="stylesheet" type="text/css" href="http')
    texts = {file: file.read_text() for file in HTML.rglob("*") if file.suffix in (".html", ".css")}
    assert [str(file) for file, text in texts.items() if any(sign in text for sign in outside)] == []
    assert texts
