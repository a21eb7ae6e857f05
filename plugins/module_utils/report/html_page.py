# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The HTML report: one file with its style, its script and its data. Nothing is loaded from elsewhere.

The parts are in the folder ``page``. The data are those of ``report_data``, and the script makes the map of them. The policy of the page
(Content-Security-Policy) allows only this style and this script, by their hashes. Where scripts are not allowed, the page shows the map as
text, and below it the patches of the advice.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import string
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ..model.messages import pluralize, printable
from .patch_text import advised_patches, patch_text
from .report_data import report_data
from .rows import Report
from .text_map import render_text

PAGE = Path(__file__).with_name("page")
TEXT_COLUMNS = 160
"""The width of the map as text. The page scrolls it."""

_AS_JSON = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}
"""Signs that JSON can also have as escape sequences. Without them no data end the element that has the data, or begin a comment."""


def render_html(report: Report, *, time: str = "") -> str:
    """Return the page. ``time`` is the time of the run for people, such as ``2026-01-31 08:15 UTC``."""
    style, script = _part("page.css"), _part("page.js")
    return string.Template(_part("page.html")).substitute(
        title=html.escape(_title(report)),
        subtitle=html.escape(_subtitle(report, time)),
        style_hash=_hash(style),
        script_hash=_hash(script),
        style=style,
        script=script,
        text=html.escape(render_text(report, width=TEXT_COLUMNS, max_rows=None)),
        patches="".join(_patches(report)),
        data=_data(report, time),
    )


def _patches(report: Report) -> Iterator[str]:
    """Yield the patches of the advice for a page without its script."""
    for row, advice in advised_patches(report):
        title = printable(f"Patch of {row.kind} {row.namespace}/{row.name}: {advice.reason.code}")
        yield f"<h2>{html.escape(title)}</h2>\n<p>{html.escape(printable(advice.reason.text))}</p>\n"
        yield f'<pre class="patch">{html.escape(patch_text(advice.patch))}</pre>\n'


@lru_cache(maxsize=8)
def _part(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the hash of a style or a script, as a Content-Security-Policy has it (W3C CSP Level 3)."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _data(report: Report, time: str) -> str:
    text = json.dumps(report_data(report, time=time), separators=(",", ":"))
    for sign, escape in _AS_JSON.items():
        text = text.replace(sign, escape)
    return text


def _title(report: Report) -> str:
    return printable(f"Spread of workloads: {report.cluster.line}".rstrip(": "))


def _subtitle(report: Report, time: str) -> str:
    texts = [time]
    if report.node_counts:
        nodes = report.node_counts
        texts.append(f"{pluralize(nodes['total'], 'node')}, {nodes['ready']} ready, {nodes['eligible']} open to these workloads")
        texts.append(pluralize(report.summary.get("namespaces", 0), "namespace"))
        texts.append(f"by {report.topology_key}")
    return printable(" · ".join(filter(None, texts)))
