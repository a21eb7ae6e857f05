# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Made-up results of k8s_spread_check and k8s_rollout_restart, in the shape that the modules return."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Sequence

HOST = "kubernetes.io/hostname"
Json = dict[str, t.Any]
BERLIN: Json = {"name": "berlin", "context": "admin", "server": "https://10.0.0.10:6443"}
BERLIN_LINE = "berlin (context admin, https://10.0.0.10:6443)"


def nodes(count: int, *, zones: int = 2, name: str = "worker-{}") -> list[Json]:
    """Nodes that take turns in the zones; without a zone where ``zones`` is 0."""
    return [
        {
            "name": name.format(number + 1),
            "hostname": name.format(number + 1),
            "zone": f"zone-{number % zones + 1}" if zones else "",
            "ready": True,
            "schedulable": True,
        }
        for number in range(count)
    ]


def piled(node_list: Sequence[Json], replicas: int) -> dict[str, int]:
    """All replicas on the first node."""
    return {node["name"]: (0 if number else replicas) for number, node in enumerate(node_list)}


def even(node_list: Sequence[Json], replicas: int) -> dict[str, int]:
    """Replicas dealt to the nodes in turn."""
    counts = dict.fromkeys((node["name"] for node in node_list), 0)
    for number in range(replicas):
        counts[node_list[number % len(node_list)]["name"]] += 1
    return counts


def workload(name: str, counts: dict[str, int], verdict: str, *, key: str = HOST, **more: t.Any) -> Json:
    """An entry of ``workloads`` of the check."""
    return {
        "kind": "Deployment",
        "namespace": "shop",
        "name": name,
        "uid": f"uid-{name}",
        "replicas": sum(counts.values()),
        "placed": sum(counts.values()),
        "domains": {key: counts},
        "verdict": verdict,
        "reason": verdict,
        "message": f"it is {verdict}",
        "restart_helps": None,
        "awaits_ends": False,
        "feasible_domains": {},
        "blockers": [],
        "advice": [],
        **more,
    }


def check(workloads: Sequence[Json], node_list: Sequence[Json] = (), **more: t.Any) -> Json:
    """A result of k8s_spread_check; what a restart helps is restartable."""
    restartable = [identity(entry) for entry in workloads if entry["restart_helps"] is True and not entry["blockers"]]
    verdicts = [entry["verdict"] for entry in workloads]
    counts = {name: verdicts.count(name) for name in ("healthy", "collapsed", "skewed", "skipped")}
    return {
        "changed": False,
        "nodes": {"total": len(node_list), "ready": len(node_list), "eligible": len(node_list)},
        "node_list": list(node_list),
        "reason": "",
        "message": "",
        "summary": {"namespaces": 1, "checked": len(workloads), **counts, "restartable": len(restartable)},
        "workloads": list(workloads),
        "restartable": restartable,
        "skipped_namespaces": [],
        **more,
    }


def identity(entry: Json) -> Json:
    return {"kind": entry["kind"], "namespace": entry["namespace"], "name": entry["name"]}


def restart(
    *workloads: Json,
    action: str = "restarted",
    outcome: str = "improved",
    reason: str = "collapsed",
    message: str = "all in one place",
    **more: t.Any,
) -> Json:
    """A result of k8s_rollout_restart that did the same with all workloads."""
    done = {"action": action, "reason": reason, "message": message, "before": {}, "after": {}, "outcome": outcome, "duration": 7, **more}
    return {"changed": action == "restarted", "workloads": [{**identity(entry), **done} for entry in workloads]}


def data_of_page(html: str) -> Json:
    """The data in an HTML report."""
    start = '<script type="application/json" id="data">'
    data: Json = json.loads(html[html.index(start) + len(start) :].partition("</script>")[0])
    return data
