# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The devices that count, and the layers on which each byte is counted once."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.network.devices import (
    PROPERTIES,
    VIRTUAL_DEVICES,
    Device,
    DeviceFilter,
    Kind,
    kind_of,
    links_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize(
    "device",
    [
        *("lo", "veth1a", "cni0", "calico", "cilium_host", "docker0", "br-0123456789ab", "flannel.1", "kube-ipvs0", "br-int"),
        *("eebee1ce5568761", "coredns--30f34c", "fwpr101p0", "fwln101i0", "tailscale0", "macvlan-shim"),
    ],
)
def test_devices_inside_a_node_are_excluded(device: str) -> None:
    assert not DeviceFilter(".*", VIRTUAL_DEVICES).matches(device)


@pytest.mark.parametrize(
    "device", ["eth0", "eno1", "enp3s0f0", "bond0", "bond0.100", "br0", "br-lan", "vmbr0", "vlan100", "team0", "ib0", "mgmt-bo"]
)
def test_devices_of_the_network_are_not_excluded(device: str) -> None:
    assert DeviceFilter(".*", VIRTUAL_DEVICES).matches(device)


PROPERTY = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-1, 5).map(float)
DEVICES = st.dictionaries(
    st.sampled_from(["eth0", "eth1", "eth0.5", "bond0", "bond0.1", "br0", "vmbr1", "team1", "vlan7", "lan", "storage", "x"]),
    st.tuples(st.floats(0, 1e12), st.none() | st.floats(1, 1e12), st.dictionaries(st.sampled_from(PROPERTIES), PROPERTY)),
    min_size=1,
).map(lambda found: {name: device(name, *one) for name, one in found.items()})


def device(name: str, rate: float | None, speed: float | None = None, of: dict[str, float] | None = None) -> Device:
    return Device(rate, speed, kind_of(name, of or {}))


@given(DEVICES)
@settings(max_examples=300, deadline=None)
def test_every_list_of_devices_has_links_and_each_device_is_in_one_at_most(devices: dict[str, Device]) -> None:
    """A hostile exporter can name any device as the one below another, also in a circle."""
    found = links_of(devices)
    counted = [name for link in found.links for name in link.devices]
    assert counted and len(counted) == len(set(counted)) and set(counted) <= devices.keys()
    assert found.ignored not in counted and (not found.ignored or found.ignored in devices)
    assert [link.measured for link in found.links] == sorted((link.measured for link in found.links), reverse=True)


@given(DEVICES)
@settings(max_examples=300, deadline=None)
def test_no_nic_with_a_speed_is_fuller_than_the_fullest_link(devices: dict[str, Device]) -> None:
    fullest = max(link.measured_share for link in links_of(devices).links)
    nics = [one for one in devices.values() if one.kind is Kind.NIC and one.speed is not None]
    assert all((one.rate or 0.0) / (one.speed or 1.0) <= fullest for one in nics)


def properties(protocol: int = 1, flags: int = 0x1003, index: int = 7, link: int = 7, assigned: int = 0) -> dict[str, float]:
    return dict(zip(PROPERTIES, (protocol, flags, index, link, assigned), strict=True))


@pytest.mark.parametrize(
    ("name", "of", "kind"),
    [
        ("lan", properties(), Kind.NIC),
        ("ib-storage", properties(protocol=32), Kind.NIC),
        ("lan", properties(assigned=3), Kind.INTERNAL),
        ("lan", properties(assigned=3, flags=0x1803), Kind.NIC),
        ("eth0", properties(assigned=3), Kind.NIC),
        ("lan", {}, Kind.PERHAPS_NIC),
        ("lan", properties(flags=0x1403, assigned=2), Kind.BOND),
        ("lan", properties(assigned=1), Kind.INTERNAL),
        ("storage", properties(link=2), Kind.INTERNAL),
        ("mesh", properties(protocol=65534), Kind.INTERNAL),
        ("eth0", properties(protocol=65534), Kind.INTERNAL),
        ("eth0", properties(link=2, assigned=1), Kind.PERHAPS_NIC),
        ("enp5s0f0v1", properties(assigned=1), Kind.PERHAPS_NIC),
        ("lan", {PROPERTIES[2]: 7.0}, Kind.PERHAPS_NIC),
        ("enx001122334455", {}, Kind.NIC),
        ("eth0.100", properties(link=2), Kind.VLAN),
        ("mgmt-br.353", properties(link=2), Kind.INTERNAL),
        ("storage-br0", {}, Kind.INTERNAL),
        ("enbr0", {}, Kind.INTERNAL),
        ("team0", {}, Kind.BOND),
        ("lan", properties(protocol=10**30, flags=-1, index=-5, link=-5, assigned=0), Kind.INTERNAL),
    ],
)
def test_the_kind_of_a_device_is_that_of_the_kernel_or_of_its_name(name: str, of: dict[str, float], kind: Kind) -> None:
    assert kind_of(name, of) is kind


def test_a_nic_of_any_name_counts_and_a_bridge_of_any_name_does_not() -> None:
    found = links_of({"lan": Device(10.0, 100.0, Kind.NIC), "cluster": Device(90.0, 100.0, Kind.INTERNAL)})
    assert [link.devices for link in found.links] == [("lan",)] and found.ignored == "cluster"


def test_a_bond_with_a_nic_that_is_not_measured_is_a_link() -> None:
    """Here the exporter has the series of a separate NIC, and not those of the NICs in the bond."""
    devices = {"eth2": device("eth2", 20.0, 100.0), "bond0": device("bond0", 180.0, 200.0), "bond0.7": device("bond0.7", 180.0, 200.0)}
    assert [link.devices for link in links_of(devices).links] == [("bond0",), ("eth2",)]


def test_a_vlan_is_no_link_if_the_device_below_it_is_measured() -> None:
    """Here that device is a bridge, and the traffic of both stays inside the node."""
    inside = device("lan", 80.0, 100.0, properties(assigned=1))
    devices = {"eno1": device("eno1", 3.0, 10.0), "lan": inside, "lan.353": device("lan.353", 70.0, 100.0, properties(link=2))}
    found = links_of(devices)
    assert [link.devices for link in found.links] == [("eno1",)] and found.ignored == "lan"


def test_a_nic_without_a_speed_is_a_link_if_it_has_traffic() -> None:
    devices = {
        "eth0": device("eth0", 50.0),
        "eth1": device("eth1", 1.0, 100.0),
        "eth2": device("eth2", 0.0),
        "br0": device("br0", 70.0, 1000.0),
    }
    assert [link.devices for link in links_of(devices).links] == [("eth0",), ("eth1",)]


def test_a_nic_without_a_speed_is_a_link_if_its_address_was_set() -> None:
    set_by_bond = properties(assigned=3, flags=0x1803)
    devices = {
        "enp1s0": device("enp1s0", 90.0, of=set_by_bond),
        "lan": device("lan", 80.0, of=set_by_bond),
        "eth0": device("eth0", 70.0, of=properties(assigned=3)),
        "enp3s0f0npf0vf0": device("enp3s0f0npf0vf0", 95.0, of=properties(assigned=1)),
        "ens9": device("ens9", 1.0, 2500.0),
    }
    assert [link.devices for link in links_of(devices).links] == [("enp1s0",), ("lan",), ("eth0",), ("ens9",)]


def test_without_any_speed_the_lowest_devices_with_traffic_are_the_links() -> None:
    devices = {"eth0": device("eth0", 0.0), "bond0": device("bond0", 50.0), "bond0.7": device("bond0.7", 40.0), "br0": device("br0", 60.0)}
    assert links_of(devices) == ([(("bond0",), 50.0, None)], [], "br0")


def test_a_bridge_alone_is_the_link() -> None:
    assert [link.devices for link in links_of({"br0": device("br0", 5.0), "br1": device("br1", 0.0)}).links] == [("br0",), ("br1",)]


def test_the_loopback_device_never_counts() -> None:
    assert not DeviceFilter(".*", "").matches("lo") and not DeviceFilter("lo", "").matches("lo")
