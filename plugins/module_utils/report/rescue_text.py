# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The result of k8s_critical_rescue as text: for each pod the evictions for it, or the reasons why it cannot be rescued."""

from __future__ import annotations

import textwrap
import typing as t
from collections.abc import Mapping

from ..model.cluster_identity import ClusterIdentity
from ..rescue.options import STATE_RELEASED, STATE_RESCUED
from .rows import skipped_objects

Json = Mapping[str, t.Any]

# Pods that need attention are listed first.
ORDER = ("failed", "impossible", "waiting", "planned", "rescued")
WORDS = {
    "failed": "could not be rescued",
    "impossible": "no eviction helps, or none is allowed",
    "waiting": "waits for a node",
    "planned": "would be rescued",
    "rescued": "is on a node",
}
INDENT = "    "


def render_rescue(
    result: Json,
    *,
    width: int = 120,
    plan: bool = False,
    state: str = STATE_RESCUED,
    namespaces: t.Sequence[str] = (),
    label_selectors: t.Sequence[str] = (),
) -> str:
    """Return the result in lines of at most ``width`` columns, except for longer names.

    ``plan``: it is the result of check mode. ``state``, ``namespaces`` and ``label_selectors``: the options of the module.
    """
    pods = sorted(result.get("pods") or (), key=lambda pod: (ORDER.index(pod["status"]), pod["namespace"], pod["name"]))
    cluster = ClusterIdentity.in_result(result).line
    error = f"error: {result['msg']}" if result.get("failed") and not pods and result.get("msg") else ""
    released = result.get("released") or ()
    if pods:
        about = _count(len(pods), "critical pod") + _totals(pods)
    elif state == STATE_RELEASED:
        about = _count(len(released), "held node") if released else "no node is held"
    else:
        about = f"no critical pod waits for a node{_where(namespaces, label_selectors)}"
    lines = [cluster] if cluster else []
    lines.append(error or about)
    for pod in pods:
        lines += ["", *_about(pod)]
    lines += [""] if released else []
    verb = "would be released" if plan else "released"
    lines += [f"{verb}: node {entry['node']}, held for {entry['pod'] or 'a pod that is gone'}" for entry in released]
    objects = skipped_objects(result)
    lines += ["", "Objects that cannot be decoded:"] if objects else []
    lines += [f"{INDENT}{name}: {reason}" for name, reason in sorted(objects.items())]
    return "\n".join(part for line in lines for part in _wrapped(line, width))


def rescue_totals(result: Json, *, plan: bool = False, error: str = "") -> dict[str, t.Any]:
    """Return the numbers of a result for job schedulers.

    ``ok`` is false if the run or a rescue has failed. ``error`` of the result has the message: ``error``, or that of the module.
    """
    pods, error = result.get("pods") or (), error or str(result.get("msg") or "")
    counts = {status: sum(pod["status"] == status for pod in pods) for status in ORDER}
    victims = sum(len(pod["victims"]) for pod in pods)
    return {
        "plan": plan,
        "cluster": ClusterIdentity.in_result(result).fields(),
        **counts,
        "victims": victims,
        "released": len(result.get("released") or ()),
        "changed": bool(result.get("changed")),
        "ok": not (result.get("failed") or error),
        "error": error,
    }


def _where(namespaces: t.Sequence[str], label_selectors: t.Sequence[str]) -> str:
    parts = [f"namespaces: {', '.join(namespaces)}"] if namespaces else []
    parts += [f"labels: {', '.join(label_selectors)}"] if label_selectors else []
    return f" ({'; '.join(parts)})" if parts else ""


def _totals(pods: t.Sequence[Json]) -> str:
    counts = [(status, sum(pod["status"] == status for pod in pods)) for status in ORDER]
    texts = [f"{status} {number}" for status, number in counts if number]
    return f" ({', '.join(texts)})" if texts else ""


def _about(pod: Json) -> list[str]:
    if pod["reason"] == "pod_gone":
        return [f"{pod['namespace']}/{pod['name']}: was deleted meanwhile", f"{INDENT}{_reason(pod)}", *_victims(pod)]
    node = f" on node {pod['node']}" if pod["node"] and pod["status"] in ("planned", "failed") else ""
    lines = [f"{pod['namespace']}/{pod['name']}: {WORDS[pod['status']]}{node}"]
    if len(pod["blockers"]) > 1:
        # The message contains the same texts in one line, so the list replaces it.
        lines.append(f"{INDENT}{pod['reason']}:")
        lines += [f"{INDENT}{_nodes(blocker)}{blocker['message']}" for blocker in pod["blockers"]]
    else:
        lines.append(f"{INDENT}{_reason(pod)}")
    return lines + _victims(pod)


def _victims(pod: Json) -> list[str]:
    verb = "evict" if pod["status"] == "planned" else "evicted"
    lines = []
    for victim in pod["victims"]:
        given = f"priority {victim['priority']}, {victim['grace_period']} s to end"
        lines.append(f"{INDENT}{verb} {victim['namespace']}/{victim['name']} ({given}): {_reason(victim)}")
    return lines


def _reason(entry: Json) -> str:
    return f"{entry['reason']}: {entry['message']}"


def _nodes(blocker: Json) -> str:
    return f"{_count(blocker['nodes'], 'node')}: " if blocker["nodes"] else ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _wrapped(line: str, width: int) -> list[str]:
    indent = INDENT * 2 if line.startswith(INDENT) else INDENT
    return textwrap.wrap(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False) or [""]
