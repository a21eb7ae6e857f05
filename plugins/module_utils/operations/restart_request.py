# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""From the options of k8s_rollout_restart to targets and RestartOptions, and from results back to plain values."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from ..model.messages import missing_permission
from ..model.reason import Reason, reason_text
from ..spread.options import check_minima, check_topology_keys
from ..spread.restart_plan import RestartOptions
from .restart_result import FAILED_ACTION, REFUSED, SKIPPED, RestartResult, Target

MOST_NAMED = 12


def restart_targets(params: Mapping[str, t.Any]) -> list[Target]:
    """The named workload, or the listed ones."""
    if params.get("name") is not None:
        return [Target(params["kind"], params["namespace"], params["name"])]
    return [Target(entry["kind"], entry["namespace"], entry["name"]) for entry in params["workloads"]]


def restart_options(params: Mapping[str, t.Any], *, dry_run: bool) -> RestartOptions:
    """RestartOptions from the module's options; raises OptionError that names the option."""
    check_minima(params)
    only_if_helps = params.get("only_if_helps")
    return RestartOptions(
        strategy=params["strategy"],
        only_if_helps=params.get("name") is None if only_if_helps is None else only_if_helps,
        allow_downtime=params["allow_downtime"],
        cooldown_s=params["cooldown"],
        max_attempts=params["max_attempts"],
        max_parallel=params["max_parallel"],
        wait=params["wait"],
        wait_timeout_s=params["wait_timeout"],
        wait_sleep_s=params["wait_sleep"],
        verify_spread=params["verify_spread"],
        dry_run=dry_run,
        topology_keys=check_topology_keys(params["topology_keys"]),
        max_skew=params.get("max_skew"),
    )


def result_of(results: Sequence[RestartResult], *, named: bool) -> dict[str, t.Any]:
    """``changed``, ``failed``, ``msg``, ``warnings`` and ``workloads``, in one shape whatever their number.

    Anything that failed fails the task; what was refused or has vanished fails it only if it was ``named``.
    """
    bad = [result for result in results if result.action == FAILED_ACTION or (named and _not_done(result))]
    warnings = (warning for result in results for warning in result.warnings)
    return {
        "changed": any(result.changed for result in results),
        "failed": bool(bad),
        "msg": "; ".join(_complaints(bad)),
        "warnings": list({missing_permission(warning) or warning: warning for warning in warnings}.values()),
        "workloads": [_entry(result) for result in results],
    }


def not_begun(targets: Sequence[Target], error: Exception) -> list[dict[str, t.Any]]:
    """The entries where nothing could be begun at all."""
    return [_entry(RestartResult(target, FAILED_ACTION, Reason("not_begun", str(error)))) for target in targets]


def _complaints(bad: Sequence[RestartResult]) -> list[str]:
    """One sentence for each that was not done; a missing role is said once, with the others that lack it, too."""
    by_role: dict[str, list[RestartResult]] = {}
    for result in bad:
        by_role.setdefault(missing_permission(reason_text(result.reason)) or str(result.target), []).append(result)
    return [_complaint(first) + _also(others) for first, *others in by_role.values()]


def _also(others: Sequence[RestartResult]) -> str:
    if not others:
        return ""
    named = ", ".join(str(result.target) for result in others[:MOST_NAMED])
    more = f" and {len(others) - MOST_NAMED} more" if len(others) > MOST_NAMED else ""
    return f" The same verb is missing for {named}{more}"


def _complaint(result: RestartResult) -> str:
    """One sentence for the error of the task, with what to do about it."""
    target, code = result.target, result.reason.code if result.reason is not None else ""
    if result.missing and result.action == SKIPPED:
        return f"there is no {target.kind} {target.name} in namespace {target.namespace}; check the spelling and the cluster"
    way_out = ", or set cooldown to 0" if code == "cooldown" else ""
    return f"{target}: {result.action}, {reason_text(result.reason)}{way_out}"


def _entry(result: RestartResult) -> dict[str, t.Any]:
    return {
        **result.target._asdict(),
        "action": result.action,
        "reason": reason_text(result.reason),
        "before": result.before,
        "after": result.after,
        "evicted": [asdict(pod) for pod in result.evicted],
        "verdict": result.verdict,
        "duration": round(result.duration_s),
    }


def _not_done(result: RestartResult) -> bool:
    return result.action == REFUSED or result.missing
