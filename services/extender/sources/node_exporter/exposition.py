# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Read the wanted metrics from the text that an exporter serves (Prometheus text format)."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Callable, Collection, Iterator, Mapping

from prometheus_client.parser import text_string_to_metric_families

from ...memory_limits import MAX_LINE_BYTES, MAX_SERIES, MAX_WANTED_BYTES, long_label_violation

COLLECTORS = {
    "node_disk_": "diskstats",
    "node_load": "loadavg",
    "node_memory_": "meminfo",
    "node_network_receive_": "netdev",
    "node_network_transmit_": "netdev",
    "node_network_": "netclass",
    **{f"node_{name}_": name for name in ("bonding", "cpu", "filesystem", "netstat", "pressure", "sockstat", "time", "uname", "vmstat")},
}
"""The collector of node_exporter by the beginning of its metrics. The first line that fits is used."""

MAX_SHOWN = 200
"""Characters of a line that are shown in an error."""


class ExpositionError(Exception):
    """The text is not in the text format of Prometheus, or has more of a metric than the limits permit."""


class Measurement(t.NamedTuple):
    """One line: its labels and its value, which is finite."""

    labels: Mapping[str, str]
    value: float


def collectors_of(names: Collection[str]) -> list[str]:
    """Return the collectors that have these metrics. It is empty if the collector of one of them is not known: all are needed then."""
    found = {next((collector for start, collector in COLLECTORS.items() if name.startswith(start)), "") for name in names}
    return [] if "" in found else sorted(found)


def parse_exposition(body: bytes | bytearray, wanted: Mapping[str, Callable[[Mapping[str, str]], bool]]) -> dict[str, list[Measurement]]:
    """Return the lines of the wanted metrics whose labels meet the condition of the metric. Raises ExpositionError.

    The other lines are not parsed, because an exporter serves hundreds of metrics and the parser needs microseconds for each line.
    """
    found: dict[str, list[Measurement]] = {}
    try:
        for family in text_string_to_metric_families("".join(_lines_of(body, wanted))):
            for sample in family.samples:
                too_long = long_label_violation(sample.labels)
                if too_long:
                    raise ExpositionError(f"{too_long} ({sample.name})")
                if not math.isfinite(sample.value) or not wanted[sample.name](sample.labels):
                    continue
                series = found.setdefault(sample.name, [])
                if len(series) == MAX_SERIES:
                    raise ExpositionError(f"it has more than {MAX_SERIES} series of {sample.name}")
                series.append(Measurement(sample.labels, float(sample.value)))
    except (ValueError, KeyError, IndexError, TypeError, OverflowError) as error:
        raise ExpositionError(f"a line cannot be parsed: {str(error)[:MAX_SHOWN]}") from error
    return found


def _lines_of(body: bytes | bytearray, names: Collection[str]) -> Iterator[str]:
    """Return the lines of these metrics. All lines of an answer need more memory than the answer, and more time than a search for names."""
    size = 0
    for name in names:
        text, at = name.encode(), -1
        while (at := body.find(text, at + 1)) >= 0:
            if body[at - 1 : at] not in (b"", b"\n") or body[at + len(text) : at + len(text) + 1] not in (b"{", b" ", b"\t"):
                continue
            end = body.find(b"\n", at)
            end = end if end >= 0 else len(body)
            size += end - at
            if end - at > MAX_LINE_BYTES:
                raise ExpositionError(f"a line of {name} has more than {MAX_LINE_BYTES} bytes")
            if size > MAX_WANTED_BYTES:
                raise ExpositionError(f"its lines of {', '.join(names)} have more than {MAX_WANTED_BYTES} bytes")
            yield body[at:end].decode("utf-8", "replace") + "\n"
