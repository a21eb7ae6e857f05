# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The devices that count, and the layers on which each byte is counted once."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.network.devices import VIRTUAL_DEVICES, DeviceFilter, layers_of
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize(
    "device", ["lo", "veth1a", "cni0", "calico", "cilium_host", "docker0", "br-0123456789ab", "flannel.1", "kube-ipvs0"]
)
def test_devices_inside_a_node_are_excluded(device: str) -> None:
    assert not DeviceFilter(".*", VIRTUAL_DEVICES).matches(device)


@pytest.mark.parametrize("device", ["eth0", "eno1", "enp3s0f0", "bond0", "bond0.100", "br0", "br-lan", "vmbr0", "vlan100", "team0", "ib0"])
def test_devices_of_the_network_are_not_excluded(device: str) -> None:
    assert DeviceFilter(".*", VIRTUAL_DEVICES).matches(device)


@given(st.frozensets(st.sampled_from(["eth0", "eth1", "eth0.5", "bond0", "bond0.1", "br0", "vmbr1", "team1", "vlan7"]), min_size=1))
@settings(max_examples=50, deadline=None)
def test_each_device_is_in_one_layer(devices: frozenset[str]) -> None:
    layers = layers_of(devices)
    assert sorted(device for layer in layers for device in layer) == sorted(devices)
    assert all(layers)
