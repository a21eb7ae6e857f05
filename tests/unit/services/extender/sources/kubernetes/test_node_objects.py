# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The parts of a node that its kubelet chooses."""

from __future__ import annotations

import json

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_object
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.node_objects import NODE_RESOURCE, _record_of

ADDRESSES = [
    ("ExternalIP", "203.0.113.1"),
    ("InternalIP", "10.0.0.9"),
    ("InternalIP", "fd00::9"),
    ("Hostname", "evil"),
    ("InternalDNS", "evil.example.org"),
    *(("InternalIP", f"10.0.0.{number}") for number in range(1, 9)),
    *(("InternalIP", f"fd00::{number}") for number in range(1, 9)),
    *(("Hostname", f"node-{number}") for number in range(1, 9)),
]


def test_a_node_has_one_address_of_each_family_and_one_host_name() -> None:
    addresses = [{"type": kind, "address": address} for kind, address in ADDRESSES]
    node = {"metadata": {"name": "evil"}, "status": {"addresses": addresses}}
    record = _record_of(decode_object(NODE_RESOURCE.type, json.dumps(node).encode()))
    assert record.identity.addresses == ("10.0.0.9", "fd00::9", "evil") and record.address == "10.0.0.9"
