# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Times as the API writes them: RFC 3339 with zone."""

from __future__ import annotations

from datetime import datetime, timezone


def format_time(epoch_s: float) -> str:
    """``2026-01-31T08:15:00Z`` for seconds since the epoch."""
    return datetime.fromtimestamp(int(epoch_s), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_time(text: str) -> float:
    """Seconds since the epoch; raises ValueError where the text is no RFC 3339 time with a zone."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return moment.timestamp()


def format_micro_time(epoch_s: float) -> str:
    """``2026-01-31T08:15:00.250000Z``, as Leases have it (apimachinery ``MicroTime``)."""
    return datetime.fromtimestamp(epoch_s, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
