# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The PromQL texts of queries."""

from __future__ import annotations

from ..interface import Expression, Gauge, LabelMatch, Rate

UNAME = "node_uname_info"
"""The gauge of node_exporter whose label ``nodename`` has the host name of the machine."""


def value_text(query: Rate | Gauge | Expression) -> str:
    """Return the PromQL text of the value.

    The text of a gauge adds 0, which removes the name of the metric from the labels. Then a gauge, a rate and a timestamp of the same
    series have equal labels.
    """
    if isinstance(query, Rate):
        return f"rate({_selector(query)}[{query.window_s}s])"
    return f"{_selector(query)} + 0" if isinstance(query, Gauge) else query.promql


def time_text(query: Rate | Gauge | Expression, node_label: str) -> str:
    """Return the PromQL text of the time of the newest sample, in seconds since the epoch. It is empty if nothing tells the time.

    For a metric it is the time of each series. For an expression it is the newest time of each node, because an expression may have
    other labels than the series behind it.
    """
    if isinstance(query, (Rate, Gauge)):
        return f"timestamp({_selector(query)})"
    if not query.timestamp_of:
        return ""
    labels = node_label if node_label == "instance" else f"{node_label}, instance"
    return f"max by ({labels}) (timestamp({query.timestamp_of}))"


def _selector(query: Rate | Gauge) -> str:
    """Return the selector of the series of a metric."""
    if not query.conditions:
        return query.metric
    return f"{query.metric}{{{','.join(map(_matcher, query.conditions))}}}"


def _matcher(condition: LabelMatch) -> str:
    # The strings of PromQL have the escapes of Go.
    text = condition.pattern.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'{condition.label}{"!~" if condition.negative else "=~"}"{text}"'
