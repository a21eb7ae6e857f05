# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pictures of the documents can be read without seeing them, and load nothing from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

from tests.style.sources import FILES
from tools import docs
from tools.paths import ROOT

PICTURES = [file for file in FILES if file.suffix == ".svg"]
SVG = "{http://www.w3.org/2000/svg}"
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
IMAGES = [(page, *found) for page in docs.pages() for found in IMAGE.findall((ROOT / page).read_text())]


def test_each_picture_is_in_a_document() -> None:
    shown = {Path(page.parent, target) for page, _text, target in IMAGES}
    assert PICTURES and shown == set(PICTURES)


def test_a_picture_has_a_text_for_readers_who_do_not_see_it() -> None:
    assert [(page, target) for page, text, target in IMAGES if len(text.split()) < 10] == []


def test_a_picture_has_a_title_and_a_description_and_both_themes() -> None:
    for picture in PICTURES:
        text = (ROOT / picture).read_text()
        root = ElementTree.fromstring(text)
        assert root.get("role") == "img" and root.get("aria-labelledby") == "title description", picture
        assert all((root.findtext(f"{SVG}{name}") or "").strip() for name in ("title", "desc")), picture
        assert "prefers-color-scheme: dark" in text, picture


def test_a_picture_has_no_script_and_no_address() -> None:
    address = re.compile(r"<script|<image|href=|https?:|url\((?!#)")
    texts = {picture: (ROOT / picture).read_text().replace('xmlns="http://www.w3.org/2000/svg"', "") for picture in PICTURES}
    assert {picture: found[0] for picture, text in texts.items() if (found := address.search(text))} == {}


def test_the_sums_of_the_picture_of_a_score_are_right() -> None:
    root = ElementTree.fromstring((ROOT / "docs" / "images" / "score.svg").read_text())
    texts = [text.text or "" for text in root.iter(f"{SVG}text")]
    rows = [texts[at : at + 4] for at, text in enumerate(texts) if re.fullmatch(r"worker-\d", text)]
    assert len(rows) == 3
    totals = {}
    for node, plugins, of_extender, total in rows:
        *factors, points = map(int, re.findall(r"\d+", of_extender))
        assert not factors or factors[0] * factors[1] * factors[2] == points
        assert int(plugins.removeprefix("plugins ")) + points == int(total)
        totals[node] = int(total)
    assert texts[-1].startswith(f"{max(totals, key=lambda node: totals[node])} has the most points")
