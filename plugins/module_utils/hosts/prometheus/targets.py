# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The targets of Prometheus: the node_exporter of each scraped host, and what is wrong with them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import Any, Optional

Target = dict[str, Any]
"""An entry of file_sd."""

HOST = "__meta_inventory_hostname"


def target_of(host: str, variables: Mapping[str, Any], kept: Sequence[Target], default_path: str) -> Target:
    """Return the target of a host from its variables and facts. A host that is not part of the run keeps its entry of ``kept``."""
    result, facts = variables.get("node_exporter_result") or {}, variables.get("ansible_facts") or {}
    earlier: Target = next((one for one in kept if one["labels"].get(HOST) == host), {"targets": [], "labels": {}})
    address = variables.get("node_exporter_scrape_address") or next(iter(result.get("addresses") or []), "")
    own_name = variables.get("node_exporter_kube_node_name") or variables.get("kube_override_hostname")
    name = own_name or str(facts.get("nodename") or "").lower() or earlier["labels"].get("node") or host.lower()
    own_scheme = "https" if variables.get("node_exporter_tls_server_config") else "http"
    scheme = result.get("scheme") or earlier["labels"].get("__scheme__") or own_scheme
    path = variables.get("node_exporter_web_telemetry_path") or default_path
    labels = {"instance": name, "node": name, "__scheme__": scheme, "__metrics_path__": path, HOST: host}
    return {"targets": [address] if address else earlier["targets"], "labels": labels}


def target_problems(targets: Sequence[Target], reaches_itself: Container[str]) -> list[str]:
    """Return why targets are not one machine each. A target at a loopback address is only good for the hosts of ``reaches_itself``."""
    by_name, by_url, found = defaultdict(list), defaultdict(list), []
    for one in targets:
        host, address = one["labels"][HOST], one["targets"][0]
        by_name[one["labels"]["node"]].append(host)
        by_url[address + one["labels"]["__metrics_path__"]].append(host)
        if re.match(r"127[.]|\[::1\]|localhost:", address) and host not in reaches_itself:
            found.append(
                f"The target of {host} is {address}, which is another machine for Prometheus: set node_exporter_web_listen_address or "
                f"node_exporter_scrape_address of {host} to an address that Prometheus reaches"
            )
    twice = sorted(name for name, hosts in by_name.items() if len(hosts) > 1)
    if twice:
        remedy = "set node_exporter_kube_node_name of each host to the name of its Kubernetes node"
        found.append(f"Several hosts of node_exporter_prometheus_targets have the node name {', '.join(twice)}: {remedy}")
    remedy = "set node_exporter_scrape_address of each host to an address of this host only"
    same = [(url, ", ".join(hosts)) for url, hosts in by_url.items() if len(hosts) > 1]
    return found + [f"{hosts} have the same target {url}, so one machine would count as several nodes: {remedy}" for url, hosts in same]


def object_problems(targets: Sequence[Target], kind: str) -> list[str]:
    """Return why an object of the Prometheus operator, a scrape_config or a service_monitor, cannot have all targets."""
    found = []
    shared = [sorted({one["labels"][label] for one in targets}) for label in ("__scheme__", "__metrics_path__")]
    if any(len(values) > 1 for values in shared):
        needs = "and node_exporter_prometheus_objects needs one scheme and one path for all hosts"
        found.append(f"The hosts have {', '.join(shared[0] + shared[1])}, {needs}")
    names = [one["targets"][0] for one in targets if not re.match(r"([0-9.]+|\[[0-9a-fA-F:.]+\]):[0-9]+$", one["targets"][0])]
    if names and kind == "service_monitor":
        found.append(f"{', '.join(names)}: a ServiceMonitor needs IP addresses with a port, so correct node_exporter_scrape_address")
    return found


def is_scraped(active: Optional[Sequence[Target]], targets: Sequence[Target]) -> bool:
    """Return whether Prometheus knows as many targets, and has scraped each."""
    return active is not None and len(active) >= len(targets) and all(one["health"] != "unknown" for one in active)


def missing_targets(prometheus: str, scrape_file: str, targets: Sequence[Target], active: Sequence[Target]) -> list[str]:
    """Return what a Prometheus does not scrape. ``active`` are its targets."""
    known = [one["labels"].get("node") for one in active]
    remedy = f"name the file {scrape_file} in scrape_config_files of its configuration, and reload it"
    unknown = [(one["targets"][0], one["labels"]["node"]) for one in targets if one["labels"]["node"] not in known]
    return [f"{prometheus} does not know the target {address} of the node {node}: {remedy}" for address, node in unknown] + [
        f"{prometheus} cannot scrape {one['scrapeUrl']} of the node {node}: {one.get('lastError') or 'it was not scraped yet'}"
        for one, node in zip(active, known)
        if one["health"] != "up"
    ]
