# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What happened to each pod, as results list it."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ...model.reason import reason_text
from ...model.undecodable import Undecodable, undecodable_results
from ...rescue.plan import IMPOSSIBLE, PLANNED, Victim
from .case import FAILED, NO_OTHER_NODE, POD_GONE, Case
from .run import Released

Json = dict[str, t.Any]


def result_of(cases: Iterable[Case], released: Iterable[Released], *, named: bool, undecodable: Iterable[Undecodable] = ()) -> Json:
    """The module's result. ``failed``: some pod could not be rescued, or one that was asked for by name cannot be."""
    listed = sorted(cases, key=lambda case: case.name)
    given_back = [{"node": entry.node, "pod": entry.pod} for entry in released]
    # A pod that was deleted meanwhile needs no rescue any more: that fails nothing.
    failed = [case for case in listed if case.status == FAILED or (named and case.status == IMPOSSIBLE)]
    result: Json = {
        "changed": bool(given_back) or any(case.changed or _is_plan(case) for case in listed),
        "pods": [row_of(case) for case in listed],
        "released": given_back,
        "skipped_objects": undecodable_results(undecodable),
        "failed": bool(failed),
    }
    if failed:
        result["msg"] = "; ".join(f"Pod {case.name}: {case.status}: {reason_text(case.reason)}" for case in failed)
    return result


def row_of(case: Case) -> Json:
    """One pod."""
    metadata, choice = case.pod.metadata, case.judgement.choice if case.judgement is not None and _is_plan(case) else None
    victims = [*case.evicted, *(choice.victims if choice is not None else ())]
    return {
        "namespace": metadata.namespace,
        "name": metadata.name,
        "status": FAILED if case.status == POD_GONE else case.status,
        "reason": reason_text(case.reason),
        "node": case.pod.spec.node_name or case.node or (choice.node if choice is not None else ""),
        "victims": [_victim(victim) for victim in victims],
        "blockers": _blockers(case),
    }


def _is_plan(case: Case) -> bool:
    """What would be done for it, and is not."""
    return case.status == PLANNED and case.has_ended


def _victim(victim: Victim) -> Json:
    metadata = victim.pod.metadata
    return {
        "namespace": metadata.namespace,
        "name": metadata.name,
        "priority": victim.priority,
        "grace_period": victim.grace_period,
        "reason": reason_text(victim.reason),
    }


def _blockers(case: Case) -> list[Json]:
    told = case.status == IMPOSSIBLE or (case.reason is not None and case.reason.code == NO_OTHER_NODE)
    blockers = case.judgement.blockers if case.judgement is not None and told else ()
    return [{"reason": blocker.reason.code, "text": blocker.reason.text, "nodes": blocker.nodes} for blocker in blockers]
