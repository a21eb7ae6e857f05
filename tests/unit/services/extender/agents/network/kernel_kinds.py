# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The properties that the kernel gives to devices, by the words of docs/network-links.md."""

from __future__ import annotations

KINDS: dict[str, tuple[int, int, bool, int]] = {
    "NIC": (1, 0x1003, False, 0),
    "VF": (1, 0x1003, False, 1),
    "slave": (1, 0x1803, False, 3),
    "bond": (1, 0x1403, False, 2),
    "VLAN": (1, 0x1003, True, 0),
    "bridge": (1, 0x1003, False, 1),
    "OVS": (1, 0x1103, False, 1),
    "veth": (1, 0x1003, True, 1),
    "macvlan": (1, 0x1003, True, 1),
    "tap": (1, 0x1003, False, 1),
    "tunnel port": (1, 0x1003, False, 1),
    "tunnel": (65534, 0x1091, False, 0),
}
"""The type, the flags, true if the link is another device, and the kind of the address.

tests/integration/extender/test_network_links.py compares them with a kernel, except those of slave, bond, VLAN, VF and OVS. These
are from bond_main.c, vlan_dev.c and vport-internal_dev.c of Linux, and from drivers.
"""
