# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Read the wanted metrics from the text that an exporter serves (Prometheus text format)."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Collection, Mapping

from prometheus_client.parser import text_string_to_metric_families

COLLECTORS = {
    "node_bonding_": "bonding",
    "node_cpu_": "cpu",
    "node_disk_": "diskstats",
    "node_filesystem_": "filesystem",
    "node_load": "loadavg",
    "node_memory_": "meminfo",
    "node_netstat_": "netstat",
    "node_network_receive_": "netdev",
    "node_network_transmit_": "netdev",
    "node_network_": "netclass",
    "node_pressure_": "pressure",
    "node_sockstat_": "sockstat",
    "node_time_": "time",
    "node_uname_": "uname",
    "node_vmstat_": "vmstat",
}
"""The collector of node_exporter by the beginning of its metrics. The first line that fits is used."""


class ExpositionError(ValueError):
    """The text is not in the text format of Prometheus."""


class Measurement(t.NamedTuple):
    """One line: its labels and its value, which is finite."""

    labels: Mapping[str, str]
    value: float


def collectors_of(names: Collection[str]) -> list[str]:
    """Return the collectors that have these metrics. It is empty if the collector of one of them is not known: all are needed then."""
    found = {next((collector for start, collector in COLLECTORS.items() if name.startswith(start)), "") for name in names}
    return [] if "" in found else sorted(found)


def parse_exposition(text: str, names: Collection[str]) -> dict[str, list[Measurement]]:
    """Return the lines of these metrics. Raises ExpositionError.

    The other lines are not parsed, because an exporter serves hundreds of metrics and the parser needs microseconds for each line.
    """
    wanted = "".join(f"{line}\n" for line in text.split("\n") if _name_in(line) in names)
    found: dict[str, list[Measurement]] = {}
    try:
        for family in text_string_to_metric_families(wanted):
            for sample in family.samples:
                if math.isfinite(sample.value):
                    found.setdefault(sample.name, []).append(Measurement(sample.labels, float(sample.value)))
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ExpositionError(f"a line cannot be parsed: {error}") from error
    return found


def _name_in(line: str) -> str:
    """Return the name of the metric in a line. Comments have none."""
    end = line.find("{")
    return line[:end].strip() if end >= 0 else line.partition(" ")[0]
