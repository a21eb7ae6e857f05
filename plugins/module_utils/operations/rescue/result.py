# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The result of a rescue: of the run, for each pod, and for ``--diff``."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...kube.client.errors import KubeError
from ...model.reason import reason_fields, reason_message
from ...model.undecodable import Undecodable, undecodable_results
from ...rescue.held_nodes import HeldNode
from ...rescue.plan import IMPOSSIBLE, Victim
from ...state.hold import taint_json
from .environment import RescueObserver
from .task import FAILED, NO_OTHER_NODE, POD_GONE, RescueTask

Json = dict[str, t.Any]


class RescueError(KubeError):
    """The run failed. The text has the cause and the remedy."""


class HoldChange(t.NamedTuple):
    """A hold that was placed on a node, or removed from it, or would be."""

    held: HeldNode
    is_release: bool = False


class Eviction(t.NamedTuple):
    """A pod that was evicted, or would be. ``critical_pod``: namespace and name of the pod that needs its capacity."""

    critical_pod: str
    victim: Victim


@dataclass
class RescueResult(RescueObserver):
    """The result of a run, which observes the run: its tasks, what it has changed or would change, and the error that ended it.

    ``warnings``: the other errors, each text once. ``undecodable`` has the objects that could not be decoded.
    """

    tasks: list[RescueTask] = field(default_factory=list)
    hold_changes: list[HoldChange] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)
    error: t.Optional[KubeError] = None
    undecodable: tuple[Undecodable, ...] = ()

    def on_error(self, what: str) -> None:
        self.warnings[what] = None

    def on_hold(self, held: HeldNode) -> None:
        self.hold_changes.append(HoldChange(held))

    def on_evicted(self, task: RescueTask, victim: Victim) -> None:
        self.evictions.append(Eviction(task.name, victim))

    def on_released(self, held: HeldNode) -> None:
        self.hold_changes.append(HoldChange(held, is_release=True))

    @property
    def has_changes(self) -> bool:
        """True if a hold was placed or removed, or an error was reported."""
        return bool(self.hold_changes or self.warnings)

    def add_plans(self) -> None:
        """Add the holds and the evictions of plans that are not carried out."""
        for task in self.tasks:
            if task.planned_hold is not None and task.is_plan:
                self.on_hold(task.planned_hold)
            for victim in task.planned_victims:
                self.on_evicted(task, victim)


def rescue_result(run: RescueResult, *, named: bool, diff: bool = False) -> Json:
    """Return the module's result. ``diff`` adds the changes for ``--diff``.

    ``failed``: the run ended with an error, a pod could not be rescued, or a rescue of the ``named`` pod is impossible.
    """
    listed = sorted(run.tasks, key=lambda task: task.name)
    released = [{"node": held.node.name, "pod": held.pod_name} for held, is_release in run.hold_changes if is_release]
    # A pod that was deleted needs no rescue any more, which is not a failure.
    failed = [task for task in listed if task.status == FAILED or (named and task.status == IMPOSSIBLE)]
    result: Json = {
        "changed": bool(run.hold_changes or run.evictions),
        "pods": [row_of(task) for task in listed],
        "released": released,
        "skipped_objects": undecodable_results(run.undecodable),
        "failed": bool(failed) or run.error is not None,
    }
    if diff:
        result["diff"] = _diff(run)
    if run.error is not None:
        result["msg"] = str(run.error)
    elif failed:
        result["msg"] = "; ".join(f"Pod {task.name}: {task.status}: {reason_message(task.reason)}" for task in failed)
    return result


def _diff(run: RescueResult) -> list[Json]:
    """Return the changes in their order: the held nodes, the victims of each critical pod by node, and the released nodes."""
    placed = [_hold_diff(change) for change in run.hold_changes if not change.is_release]
    released = [_hold_diff(change) for change in run.hold_changes if change.is_release]
    victims: dict[str, dict[str, list[str]]] = {}
    for critical_pod, victim in run.evictions:
        by_node = victims.setdefault(critical_pod, {})
        by_node.setdefault(victim.pod.spec.node_name, []).append(victim.pod.metadata.full_name)
    return [*placed, *(_victims_diff(pod, by_node) for pod, by_node in victims.items()), *released]


def _hold_diff(change: HoldChange) -> Json:
    (node, hold, _pod), is_release = change.held, change.is_release
    header = f"Node {node.name}, {'released from' if is_release else 'held for'} {change.held.pod_text}"
    others = [taint_json(taint) for taint in node.spec.taints or () if taint != hold.taint]
    held = [*others, taint_json(hold.taint)]
    before, after = (held, others) if is_release else (others, held)
    return {"before_header": header, "after_header": header, "before": _taints_diff(before), "after": _taints_diff(after)}


def _taints_diff(taints: list[Json]) -> Json:
    return {"spec": {"taints": taints}}


def _victims_diff(critical_pod: str, by_node: dict[str, list[str]]) -> Json:
    header = f"pods evicted for pod {critical_pod}"
    before = {node: sorted(names) for node, names in by_node.items()}
    after: dict[str, list[str]] = {node: [] for node in by_node}
    return {"before_header": header, "after_header": header, "before": {"pods": before}, "after": {"pods": after}}


def row_of(task: RescueTask) -> Json:
    """Return the entry of one pod."""
    metadata, planned = task.pod.metadata, task.planned_victims
    return {
        "namespace": metadata.namespace,
        "name": metadata.name,
        "status": FAILED if task.status == POD_GONE else task.status,
        **reason_fields(task.reason),
        "node": task.pod.spec.node_name or task.clearing.node or (planned[0].pod.spec.node_name if planned else ""),
        "victims": [_victim(victim) for victim in (*task.evicted, *planned)],
        "blockers": _blockers(task),
    }


def _victim(victim: Victim) -> Json:
    metadata = victim.pod.metadata
    return {
        "namespace": metadata.namespace,
        "name": metadata.name,
        "priority": victim.priority,
        "grace_period": victim.grace_period_s,
        **reason_fields(victim.reason),
    }


def _blockers(task: RescueTask) -> list[Json]:
    has_blockers = task.status == IMPOSSIBLE or (task.reason is not None and task.reason.code == NO_OTHER_NODE)
    blockers = task.last_plan.blockers if task.last_plan is not None and has_blockers else ()
    return [blocker.fields() for blocker in blockers]
