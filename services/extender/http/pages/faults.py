# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The faults of changed files, at the top of the pages, in their JSON, and in the text of /readyz."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from datetime import UTC, datetime

from ...reload_faults import Fault
from . import html

MAX_ERRORS = 20
"""Errors of one fault on a page. The JSON has all."""


def fault_parts(faults: Sequence[Fault], now_s: float) -> list[str]:
    """Return the faults as HTML. ``now_s``: seconds since 1970."""
    return [_part(fault, now_s) for fault in faults]


def faults_as_json(faults: Sequence[Fault]) -> list[dict[str, t.Any]]:
    """Return the faults as plain values."""
    return [{"text": fault.text, "since": _moment(fault).isoformat(timespec="seconds"), "errors": fault.errors} for fault in faults]


def faults_text(faults: Sequence[Fault]) -> str:
    """Return the faults in one line, or an empty text."""
    return "; ".join(f"{fault.text} (since {_moment(fault):%Y-%m-%d %H:%M:%S} UTC, /status has the errors)" for fault in faults)


def _part(fault: Fault, now_s: float) -> str:
    more = len(fault.errors) - MAX_ERRORS
    errors = [*fault.errors[:MAX_ERRORS], *([f"{more} more errors"] if more > 0 else [])]
    since = f"Since {_moment(fault):%Y-%m-%d %H:%M:%S} UTC, for {_duration(now_s - fault.since_s)}."
    return html.alert(f"{fault.text[0].upper()}{fault.text[1:]}.", since, errors)


def _moment(fault: Fault) -> datetime:
    return datetime.fromtimestamp(fault.since_s, UTC)


def _duration(seconds: float) -> str:
    """Return a duration for people in its largest unit."""
    for size, unit in ((86_400, "days"), (3_600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} seconds"
