# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The arguments of the agent ``network_traffic``."""

from __future__ import annotations

import typing as t

from .....plugins.module_utils.model.codec import Struct, field
from ..arguments import Duration, ValueAgeArgs, check_exclusive, check_pattern, check_positive, check_range, seconds
from .bandwidth import bytes_per_s
from .devices import VIRTUAL_DEVICES

AUTO, BOTH, RELATIVE = "auto", "both", "relative"

LEAST_SPEED = "1k"
"""The least speed of a link in bits per second. A smaller number is a number of gigabits or megabits without its letter."""


class DeviceEntry(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The devices of the nodes whose names match ``nodes``. Both are regular expressions that match a whole name."""

    nodes: str
    device: str

    def __post_init__(self) -> None:
        check_pattern("nodes", self.nodes)
        check_pattern("device", self.device)


class SpeedEntry(DeviceEntry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The speed of these devices in bits per second, such as 10G. It replaces the speed that the node reports."""

    device: str = ".*"
    speed: int | str

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bytes_per_s < bytes_per_s("speed", LEAST_SPEED):
            raise ValueError(f"speed is {self.speed}: it is in bits per second, and must be at least {LEAST_SPEED}; 10G is 10 Gbit/s")

    @property
    def bytes_per_s(self) -> float:
        """Return the speed in bytes per second."""
        return bytes_per_s("speed", self.speed)


class NetworkTrafficArgs(ValueAgeArgs, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``network_traffic``.

    ``device``: the devices of all nodes; ``devices``: those of groups of nodes, of which the first entry that matches counts. ``exclude``:
    devices that do not count. ``window``: the time over which the rate is taken. ``estimate``: the traffic of a new pod without a bandwidth
    annotation, in bits per second, or ``auto``: the traffic of a node for each of its pods. ``speeds``: speeds that the nodes do not report
    correctly. ``worst_utilisation``: the share of the speed with the score 0, above 0 and at most 1, unless a node has more.
    ``max_utilisation``: the share of the speed, 0 to 1, above which a filter rejects a node. ``max_age_s``: older rates are unknown.
    """

    device: str = ""
    devices: tuple[DeviceEntry, ...] = ()
    exclude: str = ""
    direction: t.Literal["receive", "transmit", "both"] = "receive"
    window: Duration = "5m"
    normalise: t.Literal["utilisation", "relative"] = "utilisation"
    speeds: tuple[SpeedEntry, ...] = ()
    estimate: int | str = AUTO
    worst_utilisation: float = 0.5
    max_utilisation: float | None = None
    max_age: Duration = field(default=90, name="max_age_s")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.device or self.devices:
            check_exclusive(device=self.device, devices=self.devices)
        check_pattern("device", self.device)
        check_pattern("exclude", self.exclude)
        seconds("window", self.window)
        if self.estimate != AUTO:
            bytes_per_s("estimate", self.estimate, other=AUTO)
        check_positive("worst_utilisation", self.worst_utilisation)
        check_range("worst_utilisation", self.worst_utilisation, 0, 1)
        check_range("max_utilisation", self.max_utilisation, 0, 1)

    @property
    def entries(self) -> tuple[DeviceEntry, ...]:
        """Return the devices by groups of nodes. Without ``device`` and ``devices`` every device counts that is not excluded."""
        return self.devices or (DeviceEntry(nodes=".*", device=self.device or ".*"),)

    @property
    def excluded(self) -> str:
        """Return the devices that do not count: also those inside a node, unless ``device`` or ``devices`` names the devices."""
        inside = "" if self.device or self.devices else VIRTUAL_DEVICES
        return "|".join(filter(None, (self.exclude, inside)))

    @property
    def directions(self) -> tuple[str, ...]:
        """Return receive, transmit, or both."""
        return ("receive", "transmit") if self.direction == BOTH else (self.direction,)

    @property
    def window_s(self) -> int:
        """Return the window in seconds."""
        return seconds("window", self.window)

    @property
    def estimate_bytes_per_s(self) -> float:
        """Return the estimate in bytes per second. It must not be ``auto``."""
        return bytes_per_s("estimate", self.estimate)
