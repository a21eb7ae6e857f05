# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Finds links of a built site that lead nowhere, without a request to any server."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LINKS = {"a": "href", "link": "href", "img": "src", "script": "src"}
"""The attribute with the address, by the name of the element."""


@dataclass
class _Page(HTMLParser):
    """The links and the anchors of one page."""

    links: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.update(value for name in ("id", "name") if (value := values.get(name)))
        if address := values.get(LINKS.get(tag, "")):
            self.links.append(address)


def problems(site: Path) -> list[str]:
    """Return the links to files or anchors of the site that do not exist, each with its page."""
    found = {file: _read(file) for file in sorted(site.rglob("*.html"))}
    return [
        f"{file.relative_to(site)}: {link}"
        for file, page in found.items()
        for link in dict.fromkeys(page.links)
        if not _leads_somewhere(file, link, found)
    ]


def _read(file: Path) -> _Page:
    page = _Page()
    page.feed(file.read_text())
    return page


def _leads_somewhere(file: Path, link: str, pages: dict[Path, _Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if not target.is_file():
        return False
    return not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].anchors
