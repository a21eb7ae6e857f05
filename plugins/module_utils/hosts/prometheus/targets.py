# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The targets of Prometheus: the node_exporter of each scraped host, and what is wrong with them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Optional

Target = dict[str, Any]
"""An entry of file_sd."""

HOST = "__meta_inventory_hostname"


def target_of(host: str, variables: Mapping[str, Any], kept: Sequence[Target], *, default_path: str) -> Target:
    """Return the target of a host from its variables and facts. A host that is not part of the run keeps its entry of ``kept``."""
    result, facts = variables.get("node_exporter_result") or {}, variables.get("ansible_facts") or {}
    earlier: Target = next((one for one in kept if one["labels"].get(HOST) == host), {"targets": [], "labels": {}})
    address = variables.get("node_exporter_scrape_address") or next(iter(result.get("addresses") or []), "")
    own_name = variables.get("node_exporter_kube_node_name") or variables.get("kube_override_hostname")
    name = own_name or str(facts.get("nodename") or "").lower() or earlier["labels"].get("node") or host.lower()
    own_scheme = "https" if variables.get("node_exporter_tls_server_config") else "http"
    labels = {
        "instance": name,
        "node": name,
        "__scheme__": result.get("scheme") or earlier["labels"].get("__scheme__") or own_scheme,
        "__metrics_path__": variables.get("node_exporter_web_telemetry_path") or default_path,
        HOST: host,
    }
    return {"targets": [address] if address else earlier["targets"], "labels": labels}


def target_problems(targets: Sequence[Target], same_machine: Iterable[str], own_addresses: Iterable[str]) -> list[str]:
    """Return why targets are not one machine each.

    Only a Prometheus on the same machine reaches a loopback address. ``own_addresses`` are the hosts whose address the user has given.
    """
    found = []
    by_name, by_address = _grouped(targets, lambda one: one["labels"]["node"]), _grouped(targets, _url)
    twice = sorted(name for name, hosts in by_name.items() if len(hosts) > 1)
    if twice:
        found.append(
            f"Several hosts of node_exporter_prometheus_targets have the node name {', '.join(twice)}: set node_exporter_kube_node_name of "
            "each host to the name of its Kubernetes node"
        )
    for one in targets:
        host, address = one["labels"][HOST], one["targets"][0]
        if re.match(r"127[.]|\[::1\]|localhost:", address) and host not in {*same_machine, *own_addresses}:
            found.append(
                f"The target of {host} is {address}, which is another machine for Prometheus: set node_exporter_web_listen_address or "
                f"node_exporter_scrape_address of {host} to an address that Prometheus reaches"
            )
    for url, hosts in by_address.items():
        if len(hosts) > 1:
            found.append(
                f"{', '.join(hosts)} have the same target {url}, so one machine would count as several nodes: set "
                "node_exporter_scrape_address of each host to an address of this host only"
            )
    return found


def _url(target: Target) -> str:
    return f"{target['targets'][0]}{target['labels']['__metrics_path__']}"


def _grouped(targets: Sequence[Target], key: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in targets:
        found.setdefault(key(one), []).append(one["labels"][HOST])
    return found


def is_scraped(active: Optional[Sequence[Mapping[str, Any]]], targets: Sequence[Target]) -> bool:
    """Return whether Prometheus knows as many targets, and has scraped each."""
    return active is not None and len(active) >= len(targets) and all(one.get("health") != "unknown" for one in active)


def missing_targets(
    url: str, scrape_file: str, targets: Sequence[Target], active: Optional[Sequence[Mapping[str, Any]]], error: str
) -> list[str]:
    """Return what a Prometheus does not scrape. ``active`` are its targets, or None if it has not answered."""
    if active is None:
        return [f"Prometheus {url} does not answer: {error}"]
    known = {(one.get("labels") or {}).get("node") for one in active}
    found = [
        f"Prometheus {url} does not know the target {one['targets'][0]} of the node {one['labels']['node']}: name the file {scrape_file} "
        "in scrape_config_files of its configuration, and reload it"
        for one in targets
        if one["labels"]["node"] not in known
    ]
    return found + [
        f"Prometheus {url} cannot scrape {one.get('scrapeUrl')} of the node {(one.get('labels') or {}).get('node', '')}: "
        f"{one.get('lastError') or 'it was not scraped yet'}"
        for one in active
        if one.get("health") != "up"
    ]
