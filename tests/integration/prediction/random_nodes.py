# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Random nodes: unequal sizes, zones of unequal size, racks, taints of both effects, and images."""

from __future__ import annotations

from tests.integration.prediction.choices import Choices
from tests.integration.prediction.random_case import IMAGES, RACK, ZONE, CaseNode, Json

SIZES = ((2000, 4096), (4000, 8192), (4000, 32768), (8000, 16384), (8000, 65536), (16000, 32768), (15890, 61440))
"""cpu in millicores and memory in MiB."""
SMALL = (3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 36, 60)
LARGE = (101, 120, 140)
"""Numbers of nodes of which the scheduler scores only a part."""
LARGE_RATE = 0.12
FEW = (2, 3, 3, 4, 5, 6)
"""Numbers of nodes of a full cluster."""
SOFT_TAINT: Json = {"key": "example.com/soft", "value": "yes", "effect": "PreferNoSchedule"}
OLD_TAINT: Json = {"key": "example.com/old", "effect": "PreferNoSchedule"}
HARD_TAINT: Json = {"key": "example.com/dedicated", "value": "db", "effect": "NoSchedule"}


def random_nodes(choices: Choices, seed: int, *, is_full: bool) -> list[CaseNode]:
    """Return the nodes of a cluster. No other seed has nodes of the same names."""
    count = choices.choice(FEW if is_full else LARGE if choices.chance(LARGE_RATE) else SMALL)
    zones = _zones(choices, count)
    racks = choices.randint(1, 4)
    racks_span_zones = choices.chance(0.3)
    sizes = [choices.choice(SIZES)] if choices.chance(0.3) else SIZES
    without_rack, without_zone = (0.1 if choices.chance(0.04) else 0.0 for _label in (RACK, ZONE))
    soft_rate, hard_rate, image_rate = choices.choice((0, 0, 0.2, 0.5)), choices.choice((0, 0, 0.2)), choices.choice((0, 0.3, 0.7))
    soft_zone = choices.choice(zones) if choices.chance(0.2) else None
    imaged_zone = choices.choice(zones) if choices.chance(0.3) else None
    cordoned_rate = choices.choice((0, 0, 0, 0.05))
    nodes = []
    for number, zone in enumerate(zones):
        cpu, memory = choices.choice(sizes)
        rack = choices.randint(1, racks)
        labels = {ZONE: zone, "disk": choices.choice(("ssd", "hdd")), RACK: f"r{rack}" if racks_span_zones else f"{zone}-r{rack}"}
        if choices.chance(without_rack):
            del labels[RACK]
        if choices.chance(without_zone):
            del labels[ZONE]
        taints = [SOFT_TAINT] if zone == soft_zone or choices.chance(soft_rate) else []
        taints += [OLD_TAINT] if choices.chance(soft_rate / 3) else []
        taints += [HARD_TAINT] if choices.chance(hard_rate) else []
        images = tuple(IMAGES) if zone == imaged_zone and choices.chance(0.9) else tuple(choices.some(list(IMAGES), image_rate))
        pods = choices.weighted({110: 0.9, 12: 0.05, 5: 0.05})
        name = f"s{seed}-n{number}"
        nodes.append(CaseNode(name, labels, cpu, memory, pods, tuple(taints), images, unschedulable=choices.chance(cordoned_rate)))
    return nodes


def _zones(choices: Choices, count: int) -> list[str]:
    """Return the zone of each node. Zones have unequal numbers of nodes."""
    names = [f"zone-{letter}" for letter in "abcd"[: choices.choice((1, 2, 2, 3, 3, 4))]][:count]
    weights = [choices.random() + 0.15 for _name in names]
    zones = [*names, *choices.choices(names, weights, k=count - len(names))]
    choices.shuffle(zones)
    return zones
