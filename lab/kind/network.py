# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pod network of a cluster whose node image has no CNI plugin of kind's. It is static: routes between the nodes' pod networks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from lab.errors import LabError
from lab.kind.commands import answer

PODS = "10.244.0.0/16"
CNI_FILE = "/etc/cni/net.d/10-lab.conflist"
TIMEOUT_S = 60.0
BALANCER = "external-load-balancer"


@dataclass(frozen=True)
class Node:
    """A node: its address in the network of the containers, and the network of its pods."""

    address: str
    pods: str


def connect(nodes: list[str], pod_network: Callable[[str], str]) -> None:
    """Connect the pods of all nodes. `pod_network` returns the podCIDR of a node, or an empty text while it has none."""
    members = {name: Node(_address(name), _wait(name, pod_network)) for name in nodes}
    for name in members:
        answer(["docker", "exec", "--interactive", name, "bash"], text=script(name, members))


def script(name: str, members: Mapping[str, Node]) -> str:
    """Return the shell script for one node. It may run again."""
    others = [node for other, node in sorted(members.items()) if other != name]
    rule = f"POSTROUTING -s {PODS} ! -d {PODS} -o eth0 -j MASQUERADE"
    lines = ["set -e", *(f"ip route replace {node.pods} via {node.address}" for node in others)]
    lines.append(f"iptables -t nat -C {rule} 2> /dev/null || iptables -t nat -A {rule}")
    return "\n".join([*lines, f"cat > {CNI_FILE} <<'END'", json.dumps(cni_config(members[name].pods)), "END", ""])


def cni_config(pods: str) -> dict[str, object]:
    """Return the configuration of the CNI plugins for one node."""
    ipam = {
        "type": "host-local",
        "dataDir": "/run/cni-ipam-state",
        "routes": [{"dst": "0.0.0.0/0"}],
        "ranges": [[{"subnet": pods}]],
    }
    return {
        "cniVersion": "0.4.0",
        "name": "lab",
        "plugins": [
            {"type": "ptp", "ipMasq": False, "mtu": 1500, "ipam": ipam},
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _address(node: str) -> str:
    return answer(["docker", "inspect", "--format", "{{.NetworkSettings.Networks.kind.IPAddress}}", node]).strip()


def _wait(node: str, pod_network: Callable[[str], str]) -> str:
    deadline_s = time.monotonic() + TIMEOUT_S
    while not (found := pod_network(node)):
        if time.monotonic() > deadline_s:
            hint = "read the log of kube-controller-manager; beside other clusters, fs.inotify.max_user_instances may be too low"
            raise LabError(f"Node {node}: it has no podCIDR after {TIMEOUT_S:.0f} s: {hint}")
        time.sleep(0.2)
    return found
