# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Scenario files: which nodes a cluster has. Read once, checked fully, errors name the file and the key.

A group deals its zones and racks to its nodes in turn; with a rack count that is a multiple of the zone count
every rack lies in one zone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from lab.errors import LabError
from lab.layout import SOURCES

SCENARIOS = SOURCES / "scenarios"
ZONE_LABEL = "topology.kubernetes.io/zone"
RACK_LABEL = "topology.onprem/rack"
QUANTITY = re.compile(r"\d+(\.\d+)?(m|k|[MGTPE]|[KMGTPE]i)?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
DEFAULT_CAPACITY = {"cpu": "8", "memory": "32Gi", "ephemeral-storage": "100Gi", "pods": "110"}
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(frozen=True)
class NodeGroup:
    """Equal nodes, but for their zone and rack. `tainted` only counts for control-plane nodes."""

    prefix: str
    count: int = 1
    zones: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    capacity: Mapping[str, str] = field(default_factory=lambda: DEFAULT_CAPACITY)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    control_plane: bool = False
    tainted: bool = True
    unschedulable: bool = False

    def node_name(self, index: int) -> str:
        """Name of the node at an index from 0; names count from 1."""
        return f"{self.prefix}-{index + 1}"


@dataclass(frozen=True)
class Scenario:
    name: str
    groups: tuple[NodeGroup, ...]

    @property
    def node_count(self) -> int:
        return sum(group.count for group in self.groups)


def load(source: str | Path) -> Scenario:
    """Read a scenario by the name of a shipped one (`demo`) or by file."""
    path = _find(source)
    try:
        data = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise LabError(f"scenario {path}: not YAML: {error}") from error
    reader = _Reader(f"scenario {path}")
    top = reader.mapping(data, "", {"nodes"})
    groups = reader.sequence(top.get("nodes"), "nodes")
    scenario = Scenario(path.stem, tuple(_group(reader, entry, f"nodes[{i}]") for i, entry in enumerate(groups)))
    _check_names(reader, scenario)
    return scenario


def shipped() -> list[str]:
    return sorted(path.stem for path in SCENARIOS.glob("*.yaml"))


def _find(source: str | Path) -> Path:
    by_name = SCENARIOS / f"{source}.yaml"
    if "/" not in str(source) and by_name.is_file():
        return by_name
    path = Path(source)
    if not path.is_file():
        raise LabError(f"scenario {source}: no such file, and none of the shipped ones ({', '.join(shipped())})")
    return path


def _group(reader: _Reader, entry: Any, at: str) -> NodeGroup:
    allowed = set(NodeGroup.__dataclass_fields__) | {"zone", "rack"}
    data = reader.mapping(entry, at, allowed)
    prefix = data.get("prefix")
    if not isinstance(prefix, str) or not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,50}[a-z0-9])?", prefix):
        raise reader.error(f"{at}.prefix", f"{prefix!r} must be the start of a node name: lower case letters, digits, dashes")
    count = data.get("count", 1)
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise reader.error(f"{at}.count", f"{count!r} must be a whole number of at least 1")
    return NodeGroup(
        prefix=prefix,
        count=count,
        zones=reader.domains(data, at, "zone"),
        racks=reader.domains(data, at, "rack"),
        labels=reader.strings(data.get("labels", {}), f"{at}.labels"),
        taints=tuple(reader.taints(data.get("taints", []), f"{at}.taints")),
        capacity=DEFAULT_CAPACITY | reader.quantities(data.get("capacity", {}), f"{at}.capacity"),
        allocatable=reader.quantities(data.get("allocatable", {}), f"{at}.allocatable"),
        control_plane=reader.boolean(data, at, "control_plane", default=False),
        tainted=reader.boolean(data, at, "tainted", default=True),
        unschedulable=reader.boolean(data, at, "unschedulable", default=False),
    )


def _check_names(reader: _Reader, scenario: Scenario) -> None:
    seen: set[str] = set()
    for group in scenario.groups:
        for name in map(group.node_name, range(group.count)):
            if name in seen:
                raise reader.error("nodes", f"node {name} comes twice: give the groups different prefixes")
            seen.add(name)


@dataclass(frozen=True)
class _Reader:
    """Checks one value at a time, and knows how to say where it stands."""

    title: str

    def error(self, at: str, what: str) -> LabError:
        return LabError(f"{self.title}: {at}: {what}")

    def mapping(self, value: Any, at: str, allowed: set[str] | None = None) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.error(at or "top level", f"must be a mapping, not {type(value).__name__}")
        unknown = sorted(str(key) for key in value if allowed is not None and key not in allowed)
        if unknown and allowed is not None:
            known = ", ".join(sorted(allowed))
            raise self.error(at or "top level", f"unknown key {', '.join(unknown)}; known are {known}")
        return value

    def sequence(self, value: Any, at: str) -> list[Any]:
        if not isinstance(value, list) or not value:
            raise self.error(at, "must be a list with at least one entry")
        return value

    def boolean(self, data: dict[str, Any], at: str, key: str, *, default: bool) -> bool:
        value = data.get(key, default)
        if not isinstance(value, bool):
            raise self.error(f"{at}.{key}", f"{value!r} must be true or false")
        return value

    def strings(self, value: Any, at: str) -> dict[str, str]:
        data = self.mapping(value, at)
        for key, text in data.items():
            if not isinstance(text, str):
                raise self.error(f"{at}.{key}", f"{text!r} must be a string: put it in quotes")
            if not LABEL_VALUE.fullmatch(text):
                raise self.error(f"{at}.{key}", f"{text!r} must be letters, digits, dashes, dots, underscores, 63 at most")
        return data

    def quantities(self, value: Any, at: str) -> dict[str, str]:
        return {key: self._quantity(amount, f"{at}.{key}") for key, amount in self.mapping(value, at).items()}

    def _quantity(self, value: Any, at: str) -> str:
        if isinstance(value, bool) or not QUANTITY.fullmatch(str(value)):
            raise self.error(at, f"{value!r} is not a quantity: write a number with a unit, such as 4, 500m, 16Gi")
        return str(value)

    def domains(self, data: dict[str, Any], at: str, key: str) -> tuple[str, ...]:
        """`zone: a`, `zones: [a, b]` or `zones: 3`, which means zone-1 to zone-3."""
        plural = f"{key}s"
        if key in data and plural in data:
            raise self.error(at, f"has both {key} and {plural}: keep one")
        value = data.get(key, data.get(plural, []))
        if isinstance(value, int) and not isinstance(value, bool) and plural in data and value > 0:
            return tuple(f"{key}-{number}" for number in range(1, value + 1))
        names = [value] if isinstance(value, str) and key in data else value
        if not isinstance(names, list) or not all(isinstance(name, str) and name and LABEL_VALUE.fullmatch(name) for name in names):
            raise self.error(
                f"{at}.{key if key in data else plural}",
                f"{value!r} must be a name or, for {plural}, a list or a number",
            )
        return tuple(names)

    def taints(self, value: Any, at: str) -> Iterator[dict[str, str]]:
        if not isinstance(value, list):
            raise self.error(at, f"must be a list of taints, not {type(value).__name__}")
        for number, entry in enumerate(value):
            here = f"{at}[{number}]"
            taint = self.strings(self.mapping(entry, here, {"key", "value", "effect"}), here)
            if not taint.get("key"):
                raise self.error(here, "has no key")
            if taint.get("effect") not in EFFECTS:
                raise self.error(f"{here}.effect", f"{taint.get('effect')!r} must be one of {', '.join(EFFECTS)}")
            yield taint
