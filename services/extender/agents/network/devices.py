# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The network devices of a node that are its links.

Linux counts a byte on each device that it passes: on eth0, on the bond above it, on the VLAN above the bond, and on the bridge above that.
Frames that a bridge forwards between its ports count on the ports only. So the lowest devices have all traffic of the links, and each link
is judged alone. The properties that node_exporter reads from the kernel tell which devices these are, and usual names tell it without them.
"""

from __future__ import annotations

import enum
import re
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

VIRTUAL_DEVICES = (
    "lo|veth.*|cni.*|cali.*|cilium.*|lxc.*|flannel.*|weave.*|datapath|vxlan.*|vx-.*|geneve.*|genev_.*|antrea.*|ovn.*|ovs-system|br-int|br-local"
    "|[0-9a-f]{15}|.{0,8}-[0-9a-f]{6}|kube-.*|nodelocaldns|docker.*|br-[0-9a-f]{12}|podman.*|nerdctl.*|virbr.*|vnet.*|tap.*|tun.*|tunl.*|fwbr.*|fwln.*|fwpr.*"
    "|wg.*|wireguard.*|tailscale.*|zt[0-9a-z]{10}|gre.*|gretap.*|erspan.*|sit.*|ip6tnl.*|ip6gre.*|ip_vti.*|ip6_vti.*|dummy.*|ifb.*|macvtap.*"
    "|macvlan.*|ipvlan.*|nlmon.*|cbr[0-9]+|qbr.*|qvb.*|qvo.*"
)
"""The devices inside a node. Their traffic reaches the network through another device, or not at all."""

LOOPBACK = "lo"

PROPERTIES = (
    "node_network_protocol_type",
    "node_network_flags",
    "node_network_iface_id",
    "node_network_iface_link",
    "node_network_address_assign_type",
)
"""The gauges of the collector netclass that tell the kind of a device, from ``/sys/class/net``."""

ETHERNET, INFINIBAND = 1, 32
"""ARPHRD_ETHER and ARPHRD_INFINIBAND of ``linux/if_arp.h``. WireGuard, Tailscale and other tunnels have other types."""
IFF_MASTER, IFF_SLAVE = 0x400, 0x800
"""The flags of a bond and of a device in it (``linux/if.h``)."""
NET_ADDR_PERM, NET_ADDR_RANDOM, NET_ADDR_SET = 0, 1, 3
"""The address is that of the hardware, a random one, or one that a program set (``linux/netdevice.h``).

Bridges, OVS, veth, tap and macvlan have random ones, which systemd and others replace. A bond sets the addresses of the devices in it.
"""

FULLER = 1.1
"""A bond or VLAN that is fuller than each link by this factor has traffic of a link that is not measured."""


class Kind(enum.IntEnum):
    """The kinds of devices, the lowest first. A device of one kind carries the traffic of those that follow."""

    NIC = 0
    PERHAPS_NIC = 1
    BOND = 2
    VLAN = 3
    INTERNAL = 4


_BRIDGE = re.compile(r"(?:(?:vm|ovs|x?en|lxd|incus)?br.*|.+-br\d*)(?:\.\d{1,4})?")
_VLAN = re.compile(r".+\.[0-9a-f]{1,4}|vlan[-_.]?\d+")
_BOND = re.compile(r"bond.*|team.*|.+-bo")
_NIC = re.compile(r"(?:eth|ib|wlan|hsn)\d+|(?:em|p\d+p)\d+(?:_\d+)?|(?:en|ib|wl)[bcdopsuvxPX][0-9A-Za-z]*\d[0-9A-Za-z]*")


class Device(t.NamedTuple):
    """A device. ``rate`` and ``speed``: bytes per second, None if they are not known."""

    rate: float | None
    speed: float | None = None
    kind: Kind = Kind.PERHAPS_NIC


class Link(t.NamedTuple):
    """A link of a node in one direction. ``measured`` and ``speed``: bytes per second; ``speed`` is None if it is unknown.

    ``devices``: one device, or the VLANs of a device that is not measured itself.
    """

    devices: tuple[str, ...]
    measured: float
    speed: float | None = None

    @property
    def measured_share(self) -> float:
        """Return the measured share of the speed. It is 0 if the speed is not known."""
        return self.measured / self.speed if self.speed else 0.0


class Links(t.NamedTuple):
    """The links of a node, the one with the most traffic first.

    ``unmeasured``: the devices without a rate that must be links, because they have a speed. ``ignored``: the device with the most traffic,
    if it is no link and the links have less.
    """

    links: Sequence[Link]
    unmeasured: Sequence[str] = ()
    ignored: str = ""


class DeviceFilter(t.NamedTuple):
    """The devices that an agent measures on a node: those that match ``pattern`` and do not match ``exclude``."""

    pattern: str
    exclude: str

    def matches(self, device: str) -> bool:
        """Return whether the device is measured. Both patterns must match the whole name. The loopback device never matches."""
        return device != LOOPBACK and _matches(self.pattern, device) and not (self.exclude and _matches(self.exclude, device))


@lru_cache(maxsize=10_000)
def _matches(pattern: str, device: str) -> bool:
    return re.fullmatch(pattern, device) is not None


def kind_of(name: str, properties: Mapping[str, float]) -> Kind:
    """Return the kind of a device by its ``PROPERTIES``, as far as they are known, and by its name."""
    protocol, flags, index, link, assigned = map(properties.get, PROPERTIES)
    # The link of a VLAN is the index of the device below it. The link of a veth device is the index of its peer, which is often in another
    # namespace. Here the same index may belong to an unrelated device. So a link is only compared with the index of the device itself.
    is_stacked = link is not None and index is not None and link != index
    return _kind(name, protocol in (None, ETHERNET, INFINIBAND), int(flags or 0) & (IFF_MASTER | IFF_SLAVE), is_stacked, assigned)


@lru_cache(maxsize=4096)
def _kind(name: str, has_frames: bool, flags: int, is_stacked: bool, assigned: float | None) -> Kind:
    if not has_frames or _BRIDGE.fullmatch(name):
        return Kind.INTERNAL
    if _VLAN.fullmatch(name):
        return Kind.VLAN
    if flags & IFF_MASTER or _BOND.fullmatch(name):
        return Kind.BOND
    # In a container eth0 is one end of a veth pair, and a virtual function has a random address.
    is_nic = bool(flags & IFF_SLAVE) or _NIC.fullmatch(name) is not None
    if not is_nic and (is_stacked or assigned in (NET_ADDR_RANDOM, NET_ADDR_SET)):
        return Kind.INTERNAL
    return Kind.NIC if assigned == NET_ADDR_PERM or (is_nic and assigned in (None, NET_ADDR_SET)) else Kind.PERHAPS_NIC


def links_of(devices: Mapping[str, Device]) -> Links:
    """Return the links of a node, of which a device has a rate.

    Each byte counts at the lowest layer that has a speed. A bridge has the speed of its fastest port, which may be a virtual one, so its
    speed does not count. Without any speed the lowest devices with traffic count.
    """
    # Most nodes have NICs only, and a cluster can have thousands of nodes.
    if all(one.kind <= Kind.PERHAPS_NIC and None not in (one.rate, one.speed) for one in devices.values()):
        return Links(_by_traffic(_link([name], devices) for name in devices))
    by_kind: list[list[Link]] = [[] for _kind in Kind]
    vlans: dict[str, list[str]] = {}
    measured = {name: device for name, device in sorted(devices.items()) if device.rate is not None}
    for name, device in measured.items():
        below = name.rpartition(".")[0]
        if device.kind is not Kind.VLAN:
            by_kind[device.kind].append(_link([name], devices))
        elif below not in measured:
            vlans.setdefault(below or name, []).append(name)
    by_kind[Kind.VLAN] = [_link(names, devices) for names in vlans.values()]
    links = [link for link in by_kind[Kind.NIC] + by_kind[Kind.PERHAPS_NIC] if link.speed is not None]
    if links:
        links += [link for link in by_kind[Kind.NIC] if link.speed is None and link.measured > 0]
    nics = len(links)
    for layer in (by_kind[Kind.BOND], by_kind[Kind.VLAN]):
        fullest = max((link.measured_share for link in links), default=-1.0)
        links += [link for link in layer if link.speed is not None and link.measured_share > FULLER * fullest]
    unmeasured = [name for name, one in devices.items() if one.rate is None and one.kind <= Kind.PERHAPS_NIC and len(links) == nics]
    if not links:
        layers = [layer for layer in by_kind if layer]
        links = next((layer for layer in layers if any(link.measured for link in layer)), layers[0])
    return _ordered(links, unmeasured, devices)


def _link(names: Sequence[str], devices: Mapping[str, Device]) -> Link:
    """Return the link of devices that share their speed."""
    speed = max((speed for name in names if (speed := devices[name].speed) is not None), default=None)
    return Link(tuple(names), sum(devices[name].rate or 0.0 for name in names), speed)


def _ordered(links: Sequence[Link], unmeasured: Sequence[str], devices: Mapping[str, Device]) -> Links:
    counted = {name for link in links for name in link.devices}
    ignored = max(devices.keys() - counted, key=lambda name: devices[name].rate or 0.0, default="")
    is_less = bool(ignored) and (devices[ignored].rate or 0.0) > FULLER * sum(link.measured for link in links)
    return Links(_by_traffic(links), unmeasured, ignored if is_less else "")


def _by_traffic(links: Iterable[Link]) -> list[Link]:
    return sorted(links, key=lambda link: (link.measured, link.speed or 0.0), reverse=True)
