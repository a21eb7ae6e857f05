# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Whether a workload is restarted, finished off after an interruption, skipped or refused. Pure: nothing is done here."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from dataclasses import dataclass

from ..model.api.workload import Workload
from ..model.codec import encode_json
from ..model.codec import replace as replace_fields
from ..model.messages import pluralize
from ..model.reason import Reason
from ..model.snapshot import ClusterSnapshot
from ..model.well_known import HOSTNAME
from ..state.restart_outcome import IMPROVED, OUTCOME_ANNOTATION, UNCHANGED, WORSE, Outcome, RestartPermission
from .check import WorkloadReport, too_few_replicas
from .distribution import COLLAPSED, SKEWED, SPREAD, Distribution, badness, judge
from .guard import budgets_at_stake, harm_of_rollout, immovable, refusal
from .remembered import DEFAULT_COOLDOWN_S, DEFAULT_MAX_ATTEMPTS, RESTARTED_AT, interrupted_restart, remembered_permission
from .rollout_status import DONE, rollout_progress

ROLLOUT = "rollout"
EVICT_SURPLUS = "evict_surplus"
AUTO = "auto"
STRATEGIES = (ROLLOUT, EVICT_SURPLUS, AUTO)

RESTART = "restart"
RESUME = "resume"
SKIPPED = "skipped"
REFUSED = "refused"


@dataclass(frozen=True)
class RestartOptions:
    """How restarts are decided and carried out; the options of k8s_rollout_restart. Times in whole seconds."""

    strategy: str = ROLLOUT
    only_if_helps: bool = True
    allow_downtime: bool = False
    cooldown_s: int = DEFAULT_COOLDOWN_S
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    max_parallel: int = 1
    wait: bool = True
    wait_timeout_s: int = 600
    wait_sleep_s: int = 5
    verify_spread: bool = True
    dry_run: bool = False
    topology_keys: Sequence[str] = (HOSTNAME,)
    max_skew: t.Optional[int] = None


@dataclass(frozen=True)
class Decision:
    """``action`` is restart, resume, skipped or refused.

    For a restart: ``attempts`` counts it in, ``revision`` is the one before it, ``eligible`` the hash of the eligible nodes.
    """

    action: str
    reason: Reason
    attempts: int = 0
    revision: str = ""
    eligible: str = ""


def decide(line: WorkloadReport, snapshot: ClusterSnapshot, options: RestartOptions, *, now_s: float) -> Decision:
    """Decide on one workload, from its line of the spread check on ``snapshot``; ``now_s`` in seconds since the epoch."""
    workload = line.workload
    forbidden = immovable(workload, snapshot)
    if forbidden is not None:
        return Decision(REFUSED, forbidden)
    permission = remembered_permission(
        workload, snapshot, line.eligible_hash, now_s=now_s, cooldown_s=options.cooldown_s, max_attempts=options.max_attempts
    )
    interrupted = interrupted_restart(workload, snapshot)
    if interrupted is not None and _second_look_is_due(line, permission, options):
        text = f"restarted at {interrupted.time}, the second look was still to come"
        return Decision(RESUME, Reason("already_restarted", text))
    forbidden = refusal(workload, snapshot, allow_downtime=options.allow_downtime)
    if forbidden is not None:
        return Decision(REFUSED, forbidden)
    if options.only_if_helps:
        useless = _useless(line)
        if useless is not None:
            return useless
    if permission.violation is not None:
        return Decision(REFUSED, permission.violation)
    # Where nothing was to be improved, a restart that improves nothing is none in vain.
    attempts = permission.attempts if line.verdict.verdict in (COLLAPSED, SKEWED) else 0
    return Decision(RESTART, line.verdict.reason, attempts, snapshot.revision(workload), line.eligible_hash)


def _second_look_is_due(line: WorkloadReport, permission: RestartPermission, options: RestartOptions) -> bool:
    """An interrupted restart is finished first; with its cooldown over, or without second looks, the next may follow at once.

    Where none follows, because nothing is uneven any more, the result of the interrupted one is still to be written down.
    """
    if rollout_progress(line.workload).state != DONE:
        return True
    helped = options.only_if_helps and line.verdict.verdict not in (COLLAPSED, SKEWED)
    return options.verify_spread and (helped or permission.violation is not None)


def _useless(line: WorkloadReport) -> t.Optional[Decision]:
    if line.workload.spec.replicas < 2:
        return Decision(REFUSED, too_few_replicas(line.workload))
    if line.verdict.verdict not in (COLLAPSED, SKEWED):
        return Decision(SKIPPED, line.verdict.reason)
    if line.prediction is None or line.prediction.restart_helps is not True:
        helps = "unknown" if line.prediction is None else str(line.prediction.restart_helps).lower()
        blockers = line.prediction.blockers if line.prediction else ()
        texts = [f"{b.reason.text} ({pluralize(b.nodes, 'node')})" if b.nodes else b.reason.text for b in blockers]
        return Decision(SKIPPED, Reason("no_gain", f"restart_helps is {helps}" + (f": {', '.join(texts)}" if texts else "")))
    return None


def holds_for(live: Workload, judged: Workload, snapshot: ClusterSnapshot, options: RestartOptions) -> bool:
    """Whether the decision to restart ``judged``, as it is on ``snapshot``, is also right for ``live``, what has become of it since.

    Everything that was judged must be as it was but for the number of replicas, which an autoscaler may write at any time. With
    another number the restart must still do no harm and take from no other budget. Whether it helps is not asked again: where the
    additional replicas will lie is not known yet.
    """
    if live.metadata.uid != judged.metadata.uid or live.metadata.deletion_timestamp is not None:
        return False
    replicas = live.spec.replicas
    scaled = replace_fields(judged, spec=replace_fields(judged.spec, replicas=replicas))
    if encode_json(scaled.spec) != encode_json(live.spec):
        return False
    if replicas == judged.spec.replicas:
        return True
    if options.only_if_helps and replicas < 2:
        return False
    if harm_of_rollout(scaled, snapshot, allow_downtime=options.allow_downtime) is not None:
        return False
    return options.allow_downtime or budgets_at_stake(scaled, snapshot) <= budgets_at_stake(judged, snapshot)


def restart_patch(workload: Workload, outcome: Outcome) -> dict[str, t.Any]:
    """The merge patch that starts the rollout and remembers it, valid only for the workload's present resource version."""
    return {
        "metadata": {"resourceVersion": workload.metadata.resource_version, "annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}},
        "spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: outcome.time}}}},
    }


def compare(before: t.Optional[Sequence[Distribution]], after: Sequence[Distribution], *, max_skew: t.Optional[int]) -> str:
    """The outcome of a second look: improved, unchanged or worse. Both looks must be over the same eligible nodes.

    Without ``before`` (the process that saw it was killed) a real spread counts as improved, anything else as unchanged. Fewer than two
    replicas show nothing.
    """
    if any(distribution.replicas + distribution.without_domain < 2 for distribution in after):
        return UNCHANGED
    if before is None:
        return IMPROVED if well_spread(after, max_skew=max_skew) else UNCHANGED
    now, then = badness(after, max_skew=max_skew), badness(before, max_skew=max_skew)
    if now == then:
        return UNCHANGED
    return IMPROVED if now < then else WORSE


def well_spread(distributions: Sequence[Distribution], *, max_skew: t.Optional[int]) -> bool:
    """Healthy, and not merely because there is only one place to be."""
    return judge(distributions, max_skew=max_skew).reason.code == SPREAD
