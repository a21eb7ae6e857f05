# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The PromQL texts of queries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from ...interface import Expression, Gauge, LabelMatch, Rate
from ..settings import STRING

UNAME = "node_uname_info"
"""The gauge of node_exporter whose label ``nodename`` has the host name of the machine."""

TARGET, PART = "kube_scheduling_target", "kube_scheduling_part"

_STRINGS = re.compile(STRING)
LONGEST_STRING, SHOWN_STRING = 60, 40
"""The characters of a string that is shown as a whole, and those that are shown of a longer one."""


def shown_promql(promql: str) -> str:
    """Return a query for people. Its long strings are cut, because a list of excluded devices hides the rest of the query."""
    return _STRINGS.sub(_cut, promql)


def _cut(found: re.Match[str]) -> str:
    text = found[0]
    left = len(text) - SHOWN_STRING
    return f'{text[:SHOWN_STRING]}…" ({left} characters are not shown)' if len(text) > LONGEST_STRING else text


def uname_text(selector: str = "") -> str:
    """Return the PromQL text of ``node_uname_info``. ``selector``: as for ``value_text``."""
    return _with_matchers(UNAME, [], selector)


def value_text(query: Rate | Gauge | Expression, selector: str = "") -> str:
    """Return the PromQL text of the value. ``selector``: label matchers that every series of a metric must meet as well.

    The text of a gauge adds 0, which removes the name of the metric from the labels. Then a gauge, a rate and a timestamp of the same
    series have equal labels.
    """
    if isinstance(query, Rate):
        return f"rate({_selector(query, selector)}[{query.window_s}s])"
    return f"{_selector(query, selector)} + 0" if isinstance(query, Gauge) else query.promql


def time_text(query: Rate | Gauge | Expression, node_label: str, selector: str = "") -> str:
    """Return the PromQL text of the time of the newest sample, in seconds since the epoch. It is empty if nothing tells the time.

    For a metric it is the time of each series. For an expression it is the newest time of each node, because an expression may have
    other labels than the series behind it.
    """
    if isinstance(query, (Rate, Gauge)):
        return f"timestamp({_selector(query, selector)})"
    if not query.timestamp_of:
        return ""
    labels = node_label if node_label == "instance" else f"{node_label}, instance"
    return f"max by ({labels}) (timestamp({query.timestamp_of}))"


def count_text(promql: str, target_labels: Sequence[str]) -> str:
    """Return the PromQL text of the number of series of a query by target. ``target_labels``: the labels that name a target."""
    return f"count by ({', '.join(target_labels)}) ({promql})"


def part_text(promql: str, target_labels: Sequence[str], targets: Iterable[Sequence[str]]) -> str:
    """Return the PromQL text of a query for these targets only. ``targets``: the values of the ``target_labels`` of each.

    The label TARGET has the values of a target, and PART marks the targets of the part. The series of the query have no PART, so
    ``unless`` leaves out those of the targets without the mark.
    """
    sources = ", ".join(f'"{name}"' for name in target_labels)
    joined = f'label_join({count_text(promql, target_labels)}, "{TARGET}", ";", {sources})'
    pattern = _string("|".join(re.escape(";".join(values)) for values in targets))
    on = ", ".join((*target_labels, PART))
    return f'({promql}) unless on ({on}) label_replace({joined}, "{PART}", "1", "{TARGET}", {pattern})'


def _selector(query: Rate | Gauge, selector: str) -> str:
    """Return the selector of the series of a metric."""
    return _with_matchers(query.metric, list(map(_matcher, query.conditions)), selector)


def _with_matchers(metric: str, matchers: list[str], selector: str) -> str:
    joined = ",".join([*matchers, *([selector.strip()] if selector else [])])
    return f"{metric}{{{joined}}}" if joined else metric


def _matcher(condition: LabelMatch) -> str:
    return f"{condition.label}{'!~' if condition.negative else '=~'}{_string(condition.pattern)}"


def _string(text: str) -> str:
    """Return the string of PromQL, which has the escapes of Go."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
