# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The network devices of a node that carry its traffic, so that no byte is counted twice.

Linux counts a byte on each device that it passes: on eth0, on the bond above it, on the VLAN above the bond, and on the bridge above that.
The kind of a device follows from its usual name, because node_exporter has no metric for all of their relations.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

VIRTUAL_DEVICES = (
    "lo|veth.*|cni.*|cali.*|cilium.*|lxc.*|flannel.*|weave.*|vxlan.*|geneve.*|genev_.*|antrea.*|ovn.*|ovs-system|kube-.*|nodelocaldns"
    "|docker.*|br-[0-9a-f]{12}|podman.*|nerdctl.*|virbr.*|vnet.*|tap.*|tun.*|tunl.*|wg.*|gre.*|gretap.*|erspan.*|sit.*|ip6tnl.*|ip6gre.*"
    "|ip_vti.*|ip6_vti.*|dummy.*|ifb.*|macvtap.*|nlmon.*"
)
"""The devices inside a node. Their traffic reaches the network through another device, or not at all."""

_LAYERS = tuple(
    re.compile(pattern)
    for pattern in (
        r"(vm|ovs|x?en)?br\d+|br[-_].*|bridge\d*",  # bridges
        r".+\.\d{1,4}|vlan[-_.]?\d+",  # VLANs
        r"bond.*|team.*",  # bonds
        r".*",  # the rest
    )
)
"""The kinds of devices, the topmost first. A device of one kind carries the traffic of the kinds that follow."""


@dataclass(frozen=True, slots=True)
class DeviceFilter:
    """The devices that an agent measures on a node: those that match ``pattern`` and do not match ``exclude``."""

    pattern: str
    exclude: str
    _known: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)

    def matches(self, device: str) -> bool:
        """Return whether the device is measured. Both patterns must match the whole name."""
        known = self._known.get(device)
        if known is None:
            known = bool(re.fullmatch(self.pattern, device)) and not (self.exclude and re.fullmatch(self.exclude, device))
            if len(self._known) < 10_000:  # nodes have few devices, but other programs choose their names
                self._known[device] = known
        return known


@lru_cache(maxsize=4096)
def layers_of(devices: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    """Return the devices by their kinds, the topmost kind first, without empty kinds.

    The traffic is measured on the first of them alone. The others have no further traffic, but may tell the speed of the link.
    """
    if len(devices) == 1:
        return (tuple(devices),)
    found: list[list[str]] = [[] for _kind in _LAYERS]
    for device in sorted(devices):
        found[next(number for number, pattern in enumerate(_LAYERS) if pattern.fullmatch(device))].append(device)
    return tuple(tuple(names) for names in found if names)


def link_speed(layers: Sequence[Collection[str]], speeds: Mapping[str, float], with_traffic: Collection[str]) -> float | None:
    """Return the sum of the speeds of the links, in the unit of ``speeds``. None if it is not known.

    node_exporter writes −125000 bytes/s if the driver does not know the speed (node_exporter#1967), so only positive speeds count. A bridge
    often has no speed; then the devices below it tell the speed. A device without a speed and without traffic is not connected.
    """
    for devices in layers:
        by_link: dict[str, float] = {}
        for device in devices:
            speed = speeds.get(device, 0.0)
            if speed > 0:
                link = _link_of(device)
                by_link[link] = max(speed, by_link.get(link, 0.0))
        if by_link and all(_link_of(device) in by_link for device in devices if device in with_traffic):
            return sum(by_link.values())
    return None


@lru_cache(maxsize=4096)
def _link_of(device: str) -> str:
    """Return the device below a VLAN such as eth0.100. All its VLANs share one link, and each has the speed of the link."""
    base, dot, number = device.rpartition(".")
    return base if dot and number.isdecimal() else device
