# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration file of kwokctl: its options, command line patches and the lab's Stages.

Variants differ only here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.binaries import kubernetes_version
from lab.errors import LabError
from lab.layout import SOURCES, Layout

# Leases are renewed every quarter of their 40 s, times this: 5,000 nodes then cost some 17 requests a second.
HEARTBEAT_FACTOR = 30
AUDIT_LOG_MEGABYTES = 2000
# kwokctl drops kwok's own defaults as soon as one of them is given, so this list has all of them that the lab needs.
KWOK_OPTIONS = {
    # Apart from the service range, and large enough for every pod.
    "cidr": "10.128.0.0/9",
    "enableDebuggingHandlers": True,
    "enablePodsOnNodeSyncListPager": True,
    # The default of 4 makes kwok wait for the API server most of the time.
    "nodeLeaseParallelism": 16,
    "nodePlayStageParallelism": 8,
    "podPlayStageParallelism": 16,
    "podsOnNodeSyncParallelism": 4,
}

# In the order in which kwokctl calls them.
PORT_OPTIONS = (
    "etcdPeerPort",
    "etcdPort",
    "kubeApiserverPort",
    "kubeControllerManagerPort",
    "kubeSchedulerPort",
    "kwokControllerPort",
)
PROMETHEUS_PORT_OPTION = "prometheusPort"


@dataclass(frozen=True)
class Variant:
    """The settings of the API server for load, and the configuration of the scheduler.

    Switching the limits off also switches priority-and-fairness off. `scheduler_config` is the name of a file in `schedulers/`; with it the
    scheduler has a Lease, kube-system/kube-scheduler.
    """

    name: str
    disable_limits: bool
    api_server_args: tuple[tuple[str, str], ...] = ()
    scheduler_config: str | None = None

    def manifests(self) -> list[str]:
        """Objects that belong to the variant, as YAML."""
        path = SOURCES / "variants" / f"{self.name}.yaml"
        return [path.read_text()] if path.exists() else []


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("standard", disable_limits=True),
        # The sum of both is shared out between the priority levels, see variants/overload.yaml.
        Variant(
            "overload",
            disable_limits=False,
            api_server_args=(("max-requests-inflight", "8"), ("max-mutating-requests-inflight", "4")),
        ),
        Variant("budget_safe", disable_limits=True, scheduler_config="budget_safe.yaml"),
    )
}


def variant_named(name: str) -> Variant:
    if name not in VARIANTS:
        raise LabError(f"variant {name!r} is unknown: use one of {', '.join(sorted(VARIANTS))}")
    return VARIANTS[name]


def write(layout: Layout, *, binaries: Path, variant: Variant, ports: list[int], prometheus: Path | None) -> None:
    """Write kwokctl's configuration file for one cluster."""
    documents: list[dict[str, Any]] = [
        {
            "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
            "kind": "KwokctlConfiguration",
            "options": _options(binaries, variant, ports, prometheus),
            "componentsPatches": _patches(layout, variant, prometheus=prometheus is not None),
        },
        {"apiVersion": "config.kwok.x-k8s.io/v1alpha1", "kind": "KwokConfiguration", "options": KWOK_OPTIONS},
    ]
    for path in sorted((SOURCES / "stages").glob("*.yaml")):
        documents.extend(document for document in yaml.safe_load_all(path.read_text()) if document)
    layout.kwok_config.write_text(yaml.safe_dump_all(documents, sort_keys=False))


def port_count(*, prometheus: bool) -> int:
    return len(PORT_OPTIONS) + int(prometheus)


def _options(binaries: Path, variant: Variant, ports: list[int], prometheus: Path | None) -> dict[str, Any]:
    options: dict[str, Any] = {
        "runtime": "binary",
        "kubeVersion": f"v{kubernetes_version()}",
        "bindAddress": "127.0.0.1",
        "etcdBinary": str(binaries / "etcd"),
        "kubeApiserverBinary": str(binaries / "kube-apiserver"),
        "kubeControllerManagerBinary": str(binaries / "kube-controller-manager"),
        "kubeSchedulerBinary": str(binaries / "kube-scheduler"),
        "kwokControllerBinary": str(binaries / "kwok"),
        "kubectlBinary": str(binaries / "kubectl"),
        "kubeAuditPolicy": str(SOURCES / "audit-policy.yaml"),
        "disableQPSLimits": variant.disable_limits,
        "heartbeatFactor": HEARTBEAT_FACTOR,
    }
    if variant.scheduler_config:
        options["kubeSchedulerConfig"] = str(SOURCES / "schedulers" / variant.scheduler_config)
    options.update(zip(PORT_OPTIONS, ports, strict=False))
    if prometheus:
        options |= {"prometheusBinary": str(prometheus), "enable": ["prometheus"], PROMETHEUS_PORT_OPTION: ports[-1]}
    return options


def _patches(layout: Layout, variant: Variant, *, prometheus: bool) -> list[dict[str, Any]]:
    patches = [
        # A lab's data need not survive a power cut, and syncing every write costs more than all else.
        _patch("etcd", ("unsafe-no-fsync", "true")),
        _patch("kube-apiserver", ("audit-log-maxsize", str(AUDIT_LOG_MEGABYTES)), *variant.api_server_args),
        # The node TTL controller annotates every node again whenever a cluster grows past 100, 500, 1,000 nodes.
        _patch("kube-controller-manager", ("controllers", "*,-ttl-controller")),
        # There is one of each, which shall outlive an API server that is away for longer than a Lease.
        _patch("kube-controller-manager", ("leader-elect", "false")),
        # Only nodes that carry the annotation are simulated; others stay as their creator leaves them.
        _patch("kwok-controller", ("manage-nodes-with-annotation-selector", "kwok.x-k8s.io/node=fake")),
    ]
    override = {"key": "manage-all-nodes", "value": "false", "override": True}
    patches[-1]["extraArgs"].append(override)
    if not variant.scheduler_config:
        # This flag would override the file, unlike those for limits.
        patches.append(_patch("kube-scheduler", ("leader-elect", "false")))
    if not variant.disable_limits:
        # The limits are for the cluster's users: its own controllers shall not throttle themselves on top.
        unthrottled = (("kube-api-qps", "5000"), ("kube-api-burst", "10000"))
        patches += [_patch("kube-controller-manager", *unthrottled), _patch("kube-scheduler", *unthrottled)]
    if prometheus:
        patches.append(_patch("prometheus", ("storage.tsdb.path", str(layout.kwok / "prometheus"))))
    return patches


def _patch(component: str, *arguments: tuple[str, str]) -> dict[str, Any]:
    return {"name": component, "extraArgs": [{"key": key, "value": value} for key, value in arguments]}
