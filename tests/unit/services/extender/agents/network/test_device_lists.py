# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The nodes of docs/network-links.md are judged by the links that the page names."""

from __future__ import annotations

import re
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.network.devices import PROPERTIES, VIRTUAL_DEVICES, DeviceFilter

from tests.unit.services.extender.agents.network.kernel_kinds import KINDS, RANDOM, SET
from tests.unit.services.extender.agents.traffic_nodes import MBIT, measured
from tests.unit.services.extender.agents.views import agent, judgements
from tools.paths import ROOT

PAGE = (ROOT / "docs" / "network-links.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| (?P<node>[^|]+) \| (?P<devices>`[^|]+) \| `(?P<link>\S+)` (?P<percent>\d+) % \| \[.+\]\(https://.+\) \|$", re.MULTILINE
)
DEVICE = re.compile(r"`(?P<name>\S+)` (?P<kind>[A-Za-z ]+) (?P<rate>[\d,]+)(?:/(?P<speed>[\d,]+))?")


class Listed(t.NamedTuple):
    """A device of the page. Rate and speed are in Mbit/s."""

    kind: str
    rate: float
    speed: float | None


def number(text: str) -> float:
    return float(text.replace(",", ""))


def listed(text: str) -> dict[str, Listed]:
    found = [DEVICE.fullmatch(part) for part in text.split("; ")]
    assert all(found), text
    return {one["name"]: Listed(one["kind"], number(one["rate"]), number(one["speed"]) if one["speed"] else None) for one in found if one}


NODES = {row["node"]: row for row in ROW.finditer(PAGE)}


def properties(devices: dict[str, Listed], random: int = RANDOM) -> dict[str, dict[str, float]]:
    """Return the properties of the devices by metric. Each device has the index of its place in the list.

    ``random``: the kind of the addresses that the kernel made at random.
    """
    found: dict[str, dict[str, float]] = {metric: {} for metric in PROPERTIES}
    for index, (name, one) in enumerate(devices.items(), start=2):
        protocol, flags, is_stacked, assigned = KINDS[one.kind]
        # The index of a veth's peer in another namespace is that of any device here by chance.
        link = (index - 1) % len(devices) + 2 if is_stacked else index
        for metric, value in zip(PROPERTIES, (protocol, flags, index, link, random if assigned == RANDOM else assigned), strict=True):
            found[metric][name] = value
    return found


def test_the_page_has_the_nodes_that_people_have() -> None:
    assert len(NODES) == PAGE.count("](https://") - sum(row[0].count("](https://") - 1 for row in NODES.values()) >= 30


@pytest.mark.parametrize(
    ("node", "random"),
    [
        *((node, random) for node in NODES for random in (RANDOM, SET)),
        *((node, None) for node, row in NODES.items() if "of any name" not in row["devices"]),
    ],
)
def test_the_fullest_link_of_a_node_is_that_of_the_page(node: str, random: int | None) -> None:
    """``random``: the kind of the addresses that were random, or None if there are only the names."""
    devices = listed(NODES[node]["devices"])
    of = agent("network_traffic")
    is_read = DeviceFilter(".*", VIRTUAL_DEVICES).matches
    one = measured(
        of,
        "n",
        {name: device.rate * MBIT for name, device in devices.items() if is_read(name)},
        speed={name: -125000.0 if device.speed is None else device.speed * MBIT for name, device in devices.items() if is_read(name)},
        properties=None if random is None else properties(devices, random),
    )
    explanation = judgements(of, [one])["n"].explanation
    link, percent = NODES[node]["link"], NODES[node]["percent"]
    assert explanation.startswith(f"{percent}% of ") and re.search(rf" on {re.escape(link)}[ ,]", explanation), explanation


@pytest.mark.parametrize("random", [RANDOM, SET])
@pytest.mark.parametrize("node", NODES)
def test_the_properties_alone_tell_the_link_of_a_node(node: str, random: int) -> None:
    """Most names of devices inside a node are not read without ``device``. Here every device is read."""
    devices = listed(NODES[node]["devices"])
    of = agent("network_traffic", device=".*")
    speeds = {name: device.speed * MBIT for name, device in devices.items() if device.speed is not None}
    one = measured(
        of, "n", {name: device.rate * MBIT for name, device in devices.items()}, speed=speeds, properties=properties(devices, random)
    )
    explanation = judgements(of, [one])["n"].explanation
    assert f" on {NODES[node]['link']}" in explanation, explanation
