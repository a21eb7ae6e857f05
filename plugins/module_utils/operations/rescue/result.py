# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The result of a rescue: of the run, and for each pod."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ...kube.client.errors import KubeError
from ...model.reason import reason_fields, reason_message
from ...model.undecodable import Undecodable, undecodable_results
from ...rescue.plan import IMPOSSIBLE, PLANNED, Victim
from .task import FAILED, NO_OTHER_NODE, POD_GONE, RescueTask

Json = dict[str, t.Any]


class Released(t.NamedTuple):
    """A node that was released, or would be."""

    node: str
    pod: str


class RescueResult(t.NamedTuple):
    """The result of a run: its tasks, the released nodes, warnings, and the error that ended it.

    ``undecodable`` has the objects that could not be decoded.
    """

    tasks: list[RescueTask]
    released: list[Released]
    warnings: tuple[str, ...] = ()
    error: t.Optional[KubeError] = None
    undecodable: tuple[Undecodable, ...] = ()


def result_of(tasks: Iterable[RescueTask], released: Iterable[Released], *, named: bool, undecodable: Iterable[Undecodable] = ()) -> Json:
    """Return the module's result. ``failed``: a pod could not be rescued, or a rescue of the ``named`` pod is impossible."""
    listed = sorted(tasks, key=lambda task: task.name)
    released_nodes = [{"node": entry.node, "pod": entry.pod} for entry in released]
    # A pod that was deleted needs no rescue any more, which is not a failure.
    failed = [task for task in listed if task.status == FAILED or (named and task.status == IMPOSSIBLE)]
    result: Json = {
        "changed": bool(released_nodes) or any(task.acted or _is_plan(task) for task in listed),
        "pods": [row_of(task) for task in listed],
        "released": released_nodes,
        "skipped_objects": undecodable_results(undecodable),
        "failed": bool(failed),
    }
    if failed:
        result["msg"] = "; ".join(f"Pod {task.name}: {task.status}: {reason_message(task.reason)}" for task in failed)
    return result


def row_of(task: RescueTask) -> Json:
    """Return the entry of one pod."""
    metadata, choice = task.pod.metadata, task.last_plan.choice if task.last_plan is not None and _is_plan(task) else None
    victims = [*task.evicted, *(choice.victims if choice is not None else ())]
    return {
        "namespace": metadata.namespace,
        "name": metadata.name,
        "status": FAILED if task.status == POD_GONE else task.status,
        **reason_fields(task.reason),
        "node": task.pod.spec.node_name or task.node or (choice.node if choice is not None else ""),
        "victims": [_victim(victim) for victim in victims],
        "blockers": _blockers(task),
    }


def _is_plan(task: RescueTask) -> bool:
    """Return whether the task ended with a plan that was not executed."""
    return task.status == PLANNED and task.is_finished


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
    return [{**reason_fields(blocker.reason), "nodes": blocker.nodes} for blocker in blockers]
