# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pod network has a route to each other node, and may be set up again."""

from __future__ import annotations

import json
import subprocess

from lab.kind.network import CNI_FILE, Node, cni_config, script

NODES = {name: Node(f"172.18.0.{number}", f"10.244.{number}.0/24") for number, name in enumerate(("control-plane", "worker", "worker2"))}


def test_a_node_gets_routes_to_the_others_and_none_to_itself() -> None:
    routes = [line for line in script("worker", NODES).splitlines() if line.startswith("ip route")]
    assert routes == ["ip route replace 10.244.0.0/24 via 172.18.0.0", "ip route replace 10.244.2.0/24 via 172.18.0.2"]


def test_the_script_is_valid_and_adds_its_rule_only_once() -> None:
    text = script("worker", NODES)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    rule = next(line for line in text.splitlines() if "MASQUERADE" in line)
    check, add = rule.split(" || ")
    assert check.removesuffix(" 2> /dev/null").replace("-C", "-A") == add


def test_the_pods_of_a_node_get_addresses_of_its_network() -> None:
    text = script("worker2", NODES)
    written = json.loads(text.partition(f"{CNI_FILE} <<'END'\n")[2].partition("\nEND")[0])
    assert written == cni_config("10.244.2.0/24")
    assert written["plugins"][0]["ipam"]["ranges"] == [[{"subnet": "10.244.2.0/24"}]]
