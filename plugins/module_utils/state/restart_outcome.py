# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The outcome of the last restart of a workload, stored as an annotation of the workload.

The annotation is a small JSON text. Other processes and machines read it, so its times are those of the API server.

While a restart is pending, ``time`` equals the annotation ``restartedAt`` of the pod template. So a later run, on any machine, knows that
this restart made the current revision, and verifies it. The time of a pending eviction never equals it.
"""

from __future__ import annotations

import hashlib
import secrets
import typing as t
from collections.abc import Iterable, Mapping

from ..model.codec import DecodeError, Struct, decode_json, encode_json
from ..model.values.timestamps import format_time, parse_time

OUTCOME_ANNOTATION = "kube-scheduling.onprem/last-outcome"

IMPROVED = "improved"
UNCHANGED = "unchanged"
WORSE = "worse"
FAILED = "failed"
PENDING = "pending"
FUTURE_TOLERANCE_S = 300
"""The annotation's times are the API server's. An annotation with a later time was edited by a person and counts as absent."""
MAX_ATTEMPTS = 1000
"""An annotation with more attempts was not written by this collection. People may write any number into it."""
OUTCOMES = (IMPROVED, UNCHANGED, WORSE, FAILED, PENDING)


class SkewMeasure(t.NamedTuple):
    """The skew of a workload. ``cost``: its skew cost (``spread.skew_cost``).

    ``basis``: a hash of the topology keys, the number of their eligible domains, and the number of replicas. Only costs of the same basis
    are compared.
    """

    basis: str
    cost: tuple[int, ...]


class RestartOutcome(Struct, frozen=True, omit_defaults=True):
    """The content of the annotation.

    - ``time``: RFC 3339, the time of the restart or the last eviction
    - ``attempts``: the number of restarts, or runs of evictions, that made no progress since the workload was well spread
    - ``lowest_cost``: the lowest skew cost since then, also before the first of them, and ``basis`` is its basis (``SkewMeasure``)
    - ``outcome``: one of OUTCOMES
    - ``revision``: the revision that it is for. While a restart is pending, it is the revision before the restart.
    - ``eligible``: ``eligible_hash`` of the workload's eligible nodes
    - ``number``: the ``deployment.kubernetes.io/revision`` of ``revision``, which ``kubectl rollout undo`` raises. It is None for a
      StatefulSet, and if an earlier version of this collection wrote the annotation.
    - ``generation`` and ``expected``: the generation and the updateRevision that the pending restart of a StatefulSet has made. The second
      one is None until the controller has reported it.
    - ``constraints``: the topology keys of the spread constraints that restarts have added to the pod template
    - ``write_id``: random text in a pending outcome. It differs between two runs that write the same in the same second.
    """

    time: str
    attempts: int
    outcome: str
    revision: str
    eligible: str
    number: t.Optional[int] = None
    expected: t.Optional[str] = None
    generation: t.Optional[int] = None
    write_id: t.Optional[str] = None
    basis: t.Optional[str] = None
    lowest_cost: t.Optional[tuple[int, ...]] = None
    constraints: tuple[str, ...] = ()

    def is_progress(self, skew: SkewMeasure) -> bool:
        """Return whether the skew cost is lower than all costs before it, on the same basis.

        If other clients undo each improvement, the costs do not become lower, and the attempts are used up. On another basis there is no
        progress. For example, two replicas that an autoscaler leaves are even by themselves.
        """
        return self.basis == skew.basis and self.lowest_cost is not None and skew.cost < self.lowest_cost

    def lowest_with(self, skew: SkewMeasure) -> SkewMeasure:
        """Return the lower cost. On another basis it is the cost of ``skew``."""
        known = self.lowest_cost if self.basis == skew.basis else None
        return skew if known is None else SkewMeasure(skew.basis, min(known, skew.cost))

    def to_annotation(self) -> str:
        """Return the text of the annotation."""
        return encode_json(self).decode()


def make_outcome(
    *,
    now_s: float,
    attempts: int,
    outcome: str,
    revision: str,
    eligible: str,
    number: t.Optional[int] = None,
    lowest: t.Optional[SkewMeasure] = None,
    constraints: Iterable[str] = (),
) -> RestartOutcome:
    """Return an outcome at ``now_s`` (seconds since the epoch, the API server's clock)."""
    basis, cost = lowest if lowest is not None else (None, None)
    return RestartOutcome(
        format_time(now_s),
        attempts,
        outcome,
        revision,
        eligible,
        number=number,
        basis=basis,
        lowest_cost=cost,
        constraints=tuple(constraints),
    )


def new_write_id() -> str:
    """Return a new ``write_id``."""
    return secrets.token_hex(4)


def read_outcome(annotations: Mapping[str, str] | None) -> RestartOutcome | None:
    """Return the stored outcome, or None if there is none or it cannot be parsed (for example after an edit by a person)."""
    text = (annotations or {}).get(OUTCOME_ANNOTATION)
    if text is None:
        return None
    try:
        outcome = decode_json(RestartOutcome, text)
        parse_time(outcome.time)
    except (DecodeError, ValueError):
        return None
    return outcome if outcome.outcome in OUTCOMES and _is_sane(outcome) else None


def _is_sane(outcome: RestartOutcome) -> bool:
    numbers = (outcome.number, outcome.generation, *(outcome.lowest_cost or ()))
    return 0 <= outcome.attempts <= MAX_ATTEMPTS and all(number is None or 0 <= number < 2**63 for number in numbers)


def eligible_hash(node_names: Iterable[str]) -> str:
    """Return a short hash of the sorted names. It changes when the set of eligible nodes changes."""
    return hashlib.sha256("\n".join(sorted(node_names)).encode()).hexdigest()[:10]
