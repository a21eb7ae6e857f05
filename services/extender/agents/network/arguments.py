# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The arguments of the agent ``network_traffic``."""

from __future__ import annotations

import typing as t

from .....plugins.module_utils.model.codec import Struct
from ....common.kinds import Kind, number, positive
from ..arguments import Pattern, Seconds, ValueAgeArgs
from .bandwidth import bytes_per_s
from .devices import VIRTUAL_DEVICES

AUTO, BOTH, RELATIVE = "auto", "both", "relative"

LEAST_SPEED = "1k"
"""The least speed of a link in bits per second. A smaller number is probably in gigabits or megabits, and its letter is missing."""


def _speed(value: t.Any) -> float:
    """Return the speed of a link in bytes per second. Raises ValueError."""
    found = bytes_per_s(value)
    if found < bytes_per_s(LEAST_SPEED):
        raise ValueError(f"it is in bits per second, and must be at least {LEAST_SPEED}; 10G is 10 Gbit/s")
    return found


def _estimate(value: t.Any) -> float | str:
    """Return the traffic of a new pod in bytes per second, or ``auto``. Raises ValueError."""
    try:
        return AUTO if value == AUTO else bytes_per_s(value)
    except ValueError as error:
        raise ValueError(f"{error}, or {AUTO}") from None


class DeviceEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The devices of the nodes whose names match ``nodes``. Both are regular expressions that match a whole name."""

    nodes: Pattern
    device: Pattern


class SpeedEntry(DeviceEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The speed of these devices, given in bits per second, such as 10G. It replaces the speed that the node reports.

    The field has bytes per second.
    """

    device: Pattern = ".*"
    speed: t.Annotated[float, Kind(_speed)]


class NetworkTrafficArgs(ValueAgeArgs, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``network_traffic``.

    - ``device``: the devices of all nodes
    - ``devices``: those of groups of nodes, of which the first entry that matches counts
    - ``exclude``: devices that do not count
    - ``window``: the time over which the rate is taken
    - ``estimate``: the traffic of a new pod without a bandwidth annotation, given in bits per second and kept in bytes per second, or
      ``auto``: the traffic of a node for each of its pods
    - ``speeds``: speeds that the nodes do not report correctly
    - ``worst_utilisation``: the share of the speed with the score 0, above 0 and at most 1, unless a node has more
    - ``max_utilisation``: the share of the speed, 0 to 1, above which a filter rejects a node
    - ``max_age_s``: older rates are unknown
    """

    device: Pattern = ""
    devices: tuple[DeviceEntry, ...] = ()
    exclude: Pattern = ""
    direction: t.Literal["receive", "transmit", "both"] = "receive"
    window: Seconds = 300
    normalise: t.Literal["utilisation", "relative"] = "utilisation"
    speeds: tuple[SpeedEntry, ...] = ()
    estimate: t.Annotated[float | str, Kind(_estimate)] = AUTO
    worst_utilisation: t.Annotated[float, positive(1)] = 0.5
    max_utilisation: t.Annotated[float, number(0, 1)] | None = None
    max_age_s: Seconds = 90

    def __post_init__(self) -> None:
        if self.device and self.devices:
            raise ValueError("device and devices cannot be used together: give one of them")

    @property
    def entries(self) -> tuple[DeviceEntry, ...]:
        """Return the devices by groups of nodes. Without ``device`` and ``devices`` every device counts that is not excluded."""
        return self.devices or (DeviceEntry(nodes=".*", device=self.device or ".*"),)

    @property
    def excluded(self) -> str:
        """Return the devices that do not count: also those inside a node, unless ``device`` or ``devices`` names the devices."""
        inside = "" if self.device or self.devices else VIRTUAL_DEVICES
        return "|".join(filter(None, (self.exclude, inside)))
