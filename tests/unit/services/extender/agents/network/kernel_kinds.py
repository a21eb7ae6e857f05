# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The properties that the kernel gives to devices, by the words of docs/network-links.md."""

from __future__ import annotations

RANDOM, SET = 1, 3
"""Kinds of addresses. systemd 242 and later, and other programs, set those that were random (nmstate#733)."""

KINDS: dict[str, tuple[int, int, bool, int]] = {
    "NIC": (1, 0x1003, False, 0),
    "VF": (1, 0x1003, False, RANDOM),
    "slave": (1, 0x1803, False, SET),
    "bond": (1, 0x1403, False, 2),
    "VLAN": (1, 0x1003, True, 2),
    "bridge": (1, 0x1003, False, RANDOM),
    "bridge of any name": (1, 0x1003, False, RANDOM),
    "OVS": (1, 0x1103, False, RANDOM),
    "veth": (1, 0x1003, True, RANDOM),
    "macvlan": (1, 0x1003, True, RANDOM),
    "tap": (1, 0x1003, False, RANDOM),
    "tunnel port": (1, 0x1003, False, RANDOM),
    "tunnel": (65534, 0x1091, False, 0),
}
"""The type, the flags, true if the link is another device, and the kind of the address.

tests/integration/extender/test_network_links.py compares them with a kernel, except those of slave, bond, VLAN, VF and OVS. These
are from bond_main.c, vlan_dev.c and vport-internal_dev.c of Linux, and from drivers.
"""
