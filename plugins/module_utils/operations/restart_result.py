# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What was asked for, and what happened to it."""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass, field

from ..model.reason import Reason, reason_text
from ..spread.restart_plan import REFUSED, SKIPPED
from ..spread.rollout_status import WAITING, Progress
from ..state.restart_outcome import FAILED

RESTARTED = "restarted"
EVICTED = "evicted"
FAILED_ACTION = "failed"

__all__ = ["EVICTED", "FAILED_ACTION", "REFUSED", "RESTARTED", "SKIPPED", "EvictedPod", "RestartResult", "Target"]


class Target(t.NamedTuple):
    """A workload that a restart was asked for."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass
class EvictedPod:
    """A pod that was evicted (in a plan: would be), and what came in its place; empty where that was not seen."""

    pod: str
    node: str
    replacement: str = ""
    replacement_node: str = ""


@dataclass
class RestartResult:
    """What happened to one target.

    ``before`` and ``after``: replicas by topology key and domain. ``missing``: it does not exist, or no longer.
    """

    target: Target
    action: str = ""
    reason: t.Optional[Reason] = None
    verdict: str = ""
    before: dict[str, dict[str, int]] = field(default_factory=dict)
    after: dict[str, dict[str, int]] = field(default_factory=dict)
    evicted: list[EvictedPod] = field(default_factory=list)
    duration_s: float = 0.0
    changed: bool = False
    missing: bool = False
    warnings: list[str] = field(default_factory=list)
    _began_s: t.Optional[float] = None

    def start(self) -> None:
        """Its turn has come; from the first time on the time counts."""
        if self._began_s is None:
            self._began_s = time.monotonic()

    def end(self, action: str, reason: Reason) -> None:
        """Nothing more happens to the target."""
        self.action, self.reason = action, reason

    def stop(self, action: str, reason: Reason) -> None:
        """As ``end``, unless pods have been evicted: that stays what was done, and this is why no more were."""
        if not self.evicted:
            self.end(action, reason)
            return
        first = self.reason or reason
        self.reason = Reason(first.code, f"{first.text}; then {reason}")

    def fail_unfinished(self, code: str, progress: Progress, *, timeout_s: int, cause: str = "", advice: str = "") -> None:
        """What was waited for has failed, or has not come within ``timeout_s``.

        ``cause`` is what the pods say of it, ``advice`` says what to do about the time.
        """
        waited = progress.state == WAITING
        said = f"{progress.text} after {timeout_s} s" if waited else progress.text
        parts = [said, "" if cause in said else cause, advice if waited else ""]
        self.verdict = FAILED
        self.end(FAILED_ACTION, Reason(code, "; ".join(filter(None, parts))))

    def vanish(self, action: str, reason: Reason) -> None:
        """The target does not exist."""
        self.missing = True
        self.end(action, reason)

    def take_time(self) -> None:
        """Count the time until now."""
        if self._began_s is not None:
            self.duration_s = time.monotonic() - self._began_s

    @property
    def in_words(self) -> str:
        """Where the replicas are now, or what went wrong."""
        if self.action == FAILED_ACTION:
            return reason_text(self.reason)
        return "; ".join(
            f"{key}: " + ", ".join(f"{domain}={count}" for domain, count in domains.items()) for key, domains in self.after.items()
        )
