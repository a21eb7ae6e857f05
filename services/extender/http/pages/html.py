# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The frame of the pages: plain HTML without scripts, readable in a dark and in a light browser."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from html import escape

REFRESH_S = 5
FRESH_S, OLD_S = 30, 90
"""Ages in seconds: a value is fresh until the first, and old from the second."""

_SIZES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
PLAIN_BELOW = 10_000

STYLE = """
:root { color-scheme: light dark; --line: #8884; --good: #1a7f37; --fair: #9a6700; --bad: #cf222e; --bar: #54aeff; }
@media (prefers-color-scheme: dark) { :root { --good: #3fb950; --fair: #d29922; --bad: #f85149; --bar: #1f6feb; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 75rem; padding: 0 1rem; }
h1 { font-size: 1.35rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .25rem .6rem; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
td:first-child { white-space: nowrap; } td:nth-child(10) { min-width: 14rem; }
th.n, td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.fresh { color: var(--good); } .aging { color: var(--fair); } .old, .wrong { color: var(--bad); }
.alert { border: 2px solid var(--bad); border-left-width: .6rem; border-radius: .3rem; padding: .5rem 1rem; margin: 1rem 0; }
.alert p { margin: .2rem 0; } .alert strong { color: var(--bad); } .alert li { overflow-wrap: anywhere; }
.dim { opacity: .7; } meter { width: 5rem; } .scroll { overflow-x: auto; }
"""


def page(title: str, parts: Iterable[str], *, refresh: bool) -> bytes:
    """Return a whole page. ``parts`` are HTML. ``refresh``: the browser loads the page again every few seconds."""
    again = f'<meta http-equiv="refresh" content="{REFRESH_S}">' if refresh else ""
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">{again}'
    body = "\n".join(parts)
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<title>{escape(title)}</title><style>{STYLE}</style></head>'
        f"<body><h1>{escape(title)}</h1>\n{body}\n</body></html>\n"
    ).encode("utf-8", "replace")


def table(titles: Sequence[str], rows: Iterable[Iterable[str]], numbers: Collection[str] = ()) -> str:
    """Return a table. ``numbers``: the titles of the columns with numbers, which are right-aligned. Cells are HTML."""
    kinds = [title in numbers for title in titles]
    head = "".join(_cell("th", escape(title), kind) for title, kind in zip(titles, kinds, strict=True))
    body = "\n".join(f"<tr>{''.join(_cell('td', cell, kind) for cell, kind in zip(row, kinds, strict=True))}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def paragraph(text: str, kind: str = "") -> str:
    """Return a paragraph of text."""
    return f'<p class="{kind}">{escape(text)}</p>' if kind else f"<p>{escape(text)}</p>"


def alert(text: str, note: str, details: Iterable[str]) -> str:
    """Return a visible frame with a fault: its text, a note behind it, and a list of details."""
    listed = "".join(f"<li>{escape(detail)}</li>" for detail in details)
    return f'<div class="alert" role="alert"><p><strong>{escape(text)}</strong> {escape(note)}</p><ul>{listed}</ul></div>'


def number(value: float | None, digits: int = 1, unit: str = "") -> str:
    """Return a number with its unit as HTML, a large one with a letter before the unit: 1.25 Gbit/s. An absent number is a dash."""
    if value is None:
        return "–"
    shown, letter = f"{value:.{digits}f}", ""
    if abs(value) >= PLAIN_BELOW:
        size, letter = next(entry for entry in _SIZES if abs(value) >= entry[0])
        shown = f"{value / size:.3g}"
    elif 1e-6 <= abs(value) < 0.01:
        shown = f"{value:.3g}"
    return f"{shown} {letter}{escape(unit)}".rstrip()


def age(age_s: float | None) -> str:
    """Return an age in seconds as coloured HTML."""
    if age_s is None:
        return '<span class="dim">unknown</span>'
    kind = "fresh" if age_s < FRESH_S else "aging" if age_s < OLD_S else "old"
    return f'<span class="{kind}">{age_s:.0f} s</span>'


def _cell(tag: str, content: str, is_number: bool) -> str:
    return f'<{tag} class="n">{content}</{tag}>' if is_number else f"<{tag}>{content}</{tag}>"
