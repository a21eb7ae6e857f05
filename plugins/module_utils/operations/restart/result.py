# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The result for each target of a restart, and the plain values of the module's result."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from ...model.api.pod import Pod, PodTemplate, TopologySpreadConstraint
from ...model.api.workload import Workload
from ...model.messages import listed, missing_permission
from ...model.reason import Reason, reason_fields
from ...model.undecodable import Undecodable, undecodable_results
from ...spread.history import RESTARTED_AT
from ...spread.restart.actions import FAILED_ACTION, REFUSED, SKIPPED, VANISHED
from ...spread.restart.targets import Target
from ...spread.rollout import WAITING, Progress
from ...spread.spread_constraints import constraint_fields, constraint_patch
from ...state.restart_outcome import FAILED, PENDING


@dataclass
class EvictedPod:
    """A pod that was evicted (in a plan: would be), and its replacement; empty if the replacement was not observed."""

    pod: str
    node: str
    replacement: str = ""
    replacement_node: str = ""


@dataclass
class RestartResult:
    """The result for one target.

    ``no_rollout``: the reason why ``auto`` makes no rollout and tries single evictions.

    ``outcome``: improved, unchanged, worse, failed or pending; empty if nothing was done. ``before`` and ``after``: replicas by topology
    key and domain. ``constraints``: the spread constraints that the restart has added to the pod template. ``patch``: the patch that adds
    them, also if the restart is refused because of them. ``templates``: the pod template before and after a restart. ``pods``: the names of
    the placed pods by node before the first eviction. ``is_recorded``: the outcome replaces the pending one in the workload's annotation.
    ``missing``: the target does not exist, or no longer. ``expected``: in a plan, the replicas afterwards by topology key and domain, in
    the first simulation. ``condition``: on what the action of a plan depends, or empty.
    """

    target: Target
    action: str = ""
    reason: t.Optional[Reason] = None
    outcome: str = ""
    before: dict[str, dict[str, int]] = field(default_factory=dict)
    after: dict[str, dict[str, int]] = field(default_factory=dict)
    expected: dict[str, dict[str, int]] = field(default_factory=dict)
    condition: str = ""
    evicted: list[EvictedPod] = field(default_factory=list)
    constraints: list[TopologySpreadConstraint] = field(default_factory=list)
    patch: dict[str, t.Any] = field(default_factory=dict)
    templates: t.Optional[tuple[PodTemplate, PodTemplate]] = None
    pods: dict[str, list[str]] = field(default_factory=dict)
    duration_s: float = 0.0
    changed: bool = False
    is_recorded: bool = False
    no_rollout: t.Optional[Reason] = None
    missing: bool = False
    warnings: list[str] = field(default_factory=list)
    _began_s: t.Optional[float] = None

    def start(self) -> None:
        """Start the time of the target at the first call."""
        if self._began_s is None:
            self._began_s = time.monotonic()

    def end(self, action: str, reason: Reason) -> None:
        """End the work on the target with this action and reason."""
        self.action, self.reason = action, reason

    def plan(self, action: str, reason: Reason, expected: dict[str, dict[str, int]], condition: str) -> None:
        """Record the action of a plan. With a condition, the action ends with _if, and the message has the condition, too."""
        text = f"{reason.text}; {condition}" if condition else reason.text
        self.end(f"{action}_if" if condition else action, Reason(reason.code, text))
        self.outcome, self.changed = PENDING, True
        self.expected, self.condition = expected, condition

    def stop(self, action: str, reason: Reason) -> None:
        """End the evictions.

        If pods were evicted, the action remains, and the reason why no more were evicted is appended. If none was evicted, and a rollout
        was not made either, the message has both reasons, without the advice of the first one to evict single pods.
        """
        if self.evicted:
            first = self.reason or reason
            self.reason = Reason(first.code, f"{first.text}; then no other pod was evicted: {reason.text}")
        elif self.no_rollout is None or self.no_rollout.text == reason.text:
            self.end(action, reason)
        else:
            cause, _separator, _advice = self.no_rollout.text.partition("; ")
            self.end(action, Reason(reason.code, f"{cause}; and no single pod is evicted: {reason.text}"))

    def fail_unfinished(self, code: str, progress: Progress, *, timeout_s: int, cause: str = "", advice: str = "") -> None:
        """End as failed after a wait that failed or took longer than ``timeout_s``.

        ``cause`` is the cause by the pods' state. ``advice`` is the remedy for a timeout.
        """
        waited = progress.state == WAITING
        said = f"{progress.text} after {timeout_s} s" if waited else progress.text
        parts = [said, "" if cause in said else cause, advice if waited else ""]
        self.outcome = FAILED
        self.end(FAILED_ACTION, Reason(code, "; ".join(filter(None, parts))))

    def note_pods(self, pods: Iterable[Pod]) -> None:
        """Record the placed pods by node, unless they are recorded."""
        if not self.pods:
            for pod in sorted(pods, key=lambda pod: (pod.spec.node_name, pod.metadata.name)):
                self.pods.setdefault(pod.spec.node_name, []).append(pod.metadata.name)

    def advise_constraints(self, workload: Workload, constraints: Sequence[TopologySpreadConstraint]) -> None:
        """Record the patch that adds the constraints."""
        self.patch = constraint_patch(workload, constraints) if constraints else {}

    def vanish(self, action: str, text: str) -> None:
        """End with a target that does not exist."""
        self.missing = True
        self.end(action, Reason(VANISHED, text))

    def take_time(self) -> None:
        """Update the duration."""
        if self._began_s is not None:
            self.duration_s = time.monotonic() - self._began_s

    @property
    def message(self) -> str:
        """The text of the reason. It is empty before the end of the work on the target."""
        return "" if self.reason is None else self.reason.text

    @property
    def in_words(self) -> str:
        """The distribution of the replicas afterwards, or the failure."""
        if self.action == FAILED_ACTION:
            return self.message
        return "; ".join(
            f"{key}: " + ", ".join(f"{domain}={count}" for domain, count in domains.items()) for key, domains in self.after.items()
        )


MAX_NAMED = 12


def restart_result(
    results: Sequence[RestartResult], *, named: bool, diff: bool = False, undecodable: Iterable[Undecodable] = ()
) -> dict[str, t.Any]:
    """Return ``changed``, ``failed``, ``msg``, ``warnings``, ``workloads`` and ``skipped_objects``, in one form for any number of results.

    ``diff`` adds the changes for ``--diff``. A failed target fails the task. A refused or missing one fails it only if it was ``named``.
    """
    bad = [result for result in results if result.action == FAILED_ACTION or (named and not _is_done(result))]
    warnings = (warning for result in results for warning in result.warnings)
    changes = {"diff": [_diff(result) for result in results if result.evicted or result.templates or result.is_recorded]} if diff else {}
    return {
        **changes,
        "changed": any(result.changed for result in results),
        "failed": bool(bad),
        "msg": "; ".join(_complaints(bad)),
        "warnings": list({missing_permission(warning) or warning: warning for warning in warnings}.values()),
        "workloads": [_entry(result) for result in results],
        "skipped_objects": undecodable_results(undecodable),
    }


def not_begun(targets: Sequence[Target], error: Exception) -> list[dict[str, t.Any]]:
    """Return the entries of targets if no work could begin."""
    return [_entry(RestartResult(target, FAILED_ACTION, Reason("not_begun", str(error)))) for target in targets]


def _complaints(bad: Sequence[RestartResult]) -> list[str]:
    """Return one sentence for each target without success. A missing role appears once, with all targets that need it."""
    by_role: dict[str, list[RestartResult]] = {}
    for result in bad:
        by_role.setdefault(missing_permission(result.message) or str(result.target), []).append(result)
    return [_complaint(first) + _also(others) for first, *others in by_role.values()]


def _also(others: Sequence[RestartResult]) -> str:
    return f" The same verb is missing for {listed((str(result.target) for result in others), MAX_NAMED)}" if others else ""


def _complaint(result: RestartResult) -> str:
    """Return one sentence for the error of the task, with the remedy."""
    target, code = result.target, result.reason.code if result.reason is not None else ""
    if result.missing and result.action == SKIPPED:
        return f"there is no {target.kind} {target.name} in namespace {target.namespace}; check the spelling and the cluster"
    remedy = ", or set cooldown to 0" if code == "cooldown" else ""
    return f"{target}: {result.action} ({code}): {result.message}{remedy}"


def _diff(result: RestartResult) -> dict[str, t.Any]:
    """Return the change of one workload.

    That is the annotation and the spread constraints of its pod template, the pods that its evictions remove from the nodes, or the
    recorded outcome of an earlier run.
    """
    header = str(result.target)
    if result.evicted:
        gone = {(pod.node, pod.pod) for pod in result.evicted}
        after = {node: [name for name in names if (node, name) not in gone] for node, names in result.pods.items()}
        return {"before_header": header, "after_header": header, "before": {"pods": result.pods}, "after": {"pods": after}}
    if result.templates is None:
        return {"before_header": header, "after_header": header, "before": {"outcome": PENDING}, "after": {"outcome": result.outcome}}
    before, now = (_changed_parts(template, with_constraints=bool(result.constraints)) for template in result.templates)
    return {"before_header": header, "after_header": header, "before": before, "after": now}


def _changed_parts(template: PodTemplate, *, with_constraints: bool) -> dict[str, t.Any]:
    """Return the parts of a pod template that a restart changes."""
    stamp = (template.metadata.annotations or {}).get(RESTARTED_AT)
    parts: dict[str, t.Any] = {"metadata": {"annotations": {RESTARTED_AT: stamp} if stamp else {}}}
    if with_constraints:
        constraints = template.spec.topology_spread_constraints or ()
        parts["spec"] = {"topologySpreadConstraints": [constraint_fields(constraint) for constraint in constraints]}
    return {"spec": {"template": parts}}


def _entry(result: RestartResult) -> dict[str, t.Any]:
    return {
        **result.target._asdict(),
        "action": result.action,
        **reason_fields(result.reason),
        "before": result.before,
        "after": result.after,
        "expected": result.expected,
        "condition": result.condition,
        "evicted": [asdict(pod) for pod in result.evicted],
        "spread_constraints": [constraint_fields(constraint) for constraint in result.constraints],
        "patch": result.patch,
        "outcome": result.outcome,
        "duration": round(result.duration_s),
    }


def _is_done(result: RestartResult) -> bool:
    return result.action != REFUSED and not result.missing
