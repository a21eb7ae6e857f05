# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The reasons of plans: why a pod waits, why no eviction helps, and what is evicted."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Iterator, Mapping

from ..model.api.pod import Pod
from ..model.reason import Blocker, Reason
from ..model.snapshot import ClusterSnapshot
from ..model.undecodable import UNDECODABLE
from ..scheduler.unknowns.pod import undecodable_pod_reason
from .plan import IMPOSSIBLE, PLANNED, WAITING, Choice, RescueContext, RescuePlan

NO_NODE = "no_node"
CAPACITY_BECOMING_FREE = "capacity_becoming_free"
ANOTHER_POD_FIRST = "another_pod_first"
UNEXPLAINED = Reason(NO_NODE, "no eviction makes the pod fit on a node")
HELD = Reason("held_for_another", "node(s) are being cleared for another critical pod")


def cleared_first_text(names: t.Sequence[str]) -> str:
    """Return why a pod waits while these nodes are being cleared for others."""
    if len(names) == 1:
        return f"node {names[0]} is being cleared for another critical pod first"
    return f"nodes {' and '.join(names)} are being cleared for other critical pods first"


def planned(pod: Pod, choice: Choice, note: str, *, hold_method: t.Optional[str]) -> RescuePlan:
    """Return the plan to evict the victims of the choice. ``note``: text that is appended to the reason."""
    victims = pod_names(victim.pod for victim in choice.victims)
    return RescuePlan(pod, PLANNED, Reason("evictions_help", f"evict {victims} from node {choice.node}{note}"), choice, hold_method)


def pod_names(pods: Iterable[Pod]) -> str:
    """Return the namespaces and names of the pods in one text."""
    return ", ".join(f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in pods)


def waiting(pod: Pod, code: str, text: str, *, expected_node: str = "", next_node: str = "") -> RescuePlan:
    """Return the plan to evict nothing now, with the code and the text of its reason."""
    return RescuePlan(pod, WAITING, Reason(code, text), expected_node=expected_node, next_node=next_node)


def expected_first_text(expected: RescuePlan) -> str:
    """Return why no eviction on the node of this plan is requested before its pod is bound there."""
    if expected.expected_node:
        return f"pod {pod_names([expected.pod])} is bound first: it fits on node {expected.expected_node} without evictions"
    return f"pod {pod_names([expected.pod])} is rescued first on node {expected.next_node}: its priority is higher"


def undecidable(pod: Pod, unknowns: t.Sequence[Reason]) -> RescuePlan:
    """Return the plan for a pod whose filters have an unknown result for these reasons."""
    text = f"it is not known whether evictions would help: {unknowns[0].text or unknowns[0].code}"
    return RescuePlan(pod, IMPOSSIBLE, Reason(unknowns[0].code, text), blockers=tuple(Blocker(unknown, 0) for unknown in unknowns))


def no_eviction_helps_reason(blockers: t.Sequence[Blocker], note: str) -> Reason:
    """Return all blockers in one line, in the words of the scheduler."""
    if not blockers:
        return Reason(NO_NODE, f"there is no node{note}")
    text = "; ".join(f"{blocker.reason.text or blocker.reason.code} (nodes: {blocker.nodes})" for blocker in blockers)
    return Reason(NO_NODE, f"no eviction makes the pod fit on a node: {text}{note}")


def unchecked_nodes(snapshot: ClusterSnapshot, in_use: Mapping[str, str], pod: Pod, context: RescueContext) -> Iterator[Blocker]:
    """Yield the reasons for which nodes were not checked. ``in_use``: the nodes that are being cleared, each with the uid of its pod."""
    taken = sum(owner != pod.metadata.uid for name, owner in in_use.items() if name in snapshot.nodes)
    tried = Reason("tried_without_effect", "node(s) were tried without effect")
    yield from (Blocker(reason, nodes) for reason, nodes in ((HELD, taken), (tried, len(context.excluded_nodes))) if nodes)
    undecodable = (one for name, one in snapshot.undecodable_pods.items() if name in snapshot.nodes)
    yield from (Blocker(undecodable_pod_reason(one), 1) for one in undecodable)
    nodes = len(snapshot.undecodable_of("Node"))
    if nodes:
        yield Blocker(Reason(UNDECODABLE, f"{'it' if nodes == 1 else 'they'} cannot be decoded"), nodes)
