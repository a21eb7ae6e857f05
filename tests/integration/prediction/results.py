# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The results of all random clusters: kept in a file of JSON lines, counted, and described."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import IMPROVED

from lab.binaries import KUBERNETES_VERSION
from tests.integration.kubernetes_version import VERSION
from tests.integration.prediction.comparison import PREEMPTED, UNFINISHED, CaseResult, Compared
from tools.paths import ROOT

SMALL_UP_TO = 100
"""In a cluster with more nodes the scheduler scores only a part of them."""


def seeds_of(text: str) -> range | None:
    """Return the seeds of `7` or `100-149`, or None for an empty text."""
    first, _dash, last = text.partition("-")
    return range(int(first), int(last or first) + 1) if text else None


def results_file(name: str, *, is_soak: bool) -> Path:
    """Return the file of a run's results. That of a soak is always the same, so that it can be continued with one version of Kubernetes."""
    of_soak = f"{name}soak" if VERSION == KUBERNETES_VERSION else f"{name}soak-{VERSION}"
    return ROOT / "tests" / "output" / "prediction" / f"{of_soak if is_soak else name + time.strftime('%Y%m%dT%H%M%S')}.jsonl"


class _Result(Protocol):
    @property
    def seed(self) -> int:
        """The seed of the cluster."""


R = TypeVar("R", bound=_Result)


class KeptResults(Generic[R]):
    """The results by seed. A run adds to the file, and a later run does not repeat these seeds. ``kind``: the class of the results."""

    def __init__(self, kind: type[R], file: Path) -> None:
        self._file = file
        lines = file.read_text().splitlines() if file.exists() else []
        self._cases: dict[int, R] = {case.seed: case for case in (decode_json(kind, line) for line in lines)}

    def __contains__(self, seed: int) -> bool:
        return seed in self._cases

    def add(self, case: R) -> None:
        """Keep the results of one cluster."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("ab") as lines:
            lines.write(encode_json(case) + b"\n")
        self._cases[case.seed] = case

    def of(self, seeds: Iterable[int]) -> list[R]:
        """Return the results of these seeds. A seed without a result is left out."""
        return [self._cases[seed] for seed in seeds if seed in self._cases]


def is_wrong(compared: Compared) -> bool:
    """Return whether the prediction was true or false, and the result is the opposite; or that it preempts, and it does not."""
    if compared.reasons == ["preempts"]:
        return compared.outcome not in (PREEMPTED, UNFINISHED)
    return compared.helps is not None and compared.helps != (compared.outcome == IMPROVED)


def problems(cases: Iterable[CaseResult]) -> Iterator[str]:
    """Describe each wrong prediction, with the setting that repeats it."""
    for case in cases:
        for one in case.workloads:
            if is_wrong(one):
                yield (
                    f"PREDICTION_SEEDS={case.seed}: {one.workload}, {case.nodes} nodes, scheduler {case.profiles}: restart_helps is "
                    f"{one.helps} ({', '.join(one.reasons) or 'no reason'}), the outcome is {one.outcome}; {one.verdict} {one.before}, "
                    f"expected {one.expected}, afterwards {one.after}"
                )


class Tally:
    """Counts of predictions and outcomes. ``cases`` are all of one kind."""

    def __init__(self, cases: Iterable[CaseResult]) -> None:
        cases = list(cases)
        compared = [one for case in cases for one in case.workloads]
        self.cases = len(cases)
        self.workloads = len(compared)
        self.seconds = sum(case.seconds for case in cases)
        self.counts = Counter((one.helps, one.outcome == IMPROVED) for one in compared)
        self.exact = sum(one.expected == one.after for one in compared if one.expected and one.after)
        self.with_expected = sum(bool(one.expected and one.after) for one in compared)

    @property
    def right_true(self) -> float:
        """The share of improved restarts among those that were predicted to help."""
        return self._share((True, True), (True, False))

    @property
    def right_false(self) -> float:
        """The share of restarts without improvement among those that were predicted not to help."""
        return self._share((False, False), (False, True))

    @property
    def unknown(self) -> float:
        """The share of workloads without a prediction."""
        return sum(self.counts[None, improved] for improved in (True, False)) / max(1, self.workloads)

    def _share(self, right: tuple[bool, bool], wrong: tuple[bool, bool]) -> float:
        total = self.counts[right] + self.counts[wrong]
        return self.counts[right] / total if total else 1.0

    def __str__(self) -> str:
        counts = ", ".join(
            f"{self.counts[helps, improved]} {name} and {'improved' if improved else 'not improved'}"
            for helps, name in ((True, "true"), (False, "false"), (None, "null"))
            for improved in (True, False)
        )
        return (
            f"{self.cases} clusters, {self.workloads} uneven workloads: {counts}; {self.right_true:.1%} of true and "
            f"{self.right_false:.1%} of false are right, {self.unknown:.1%} are null; {self.exact} of {self.with_expected} expected "
            f"distributions are exact; {self.seconds / max(1, self.cases):.0f} s for each cluster"
        )


UP_TO, MORE, FULL = KINDS = (f"up to {SMALL_UP_TO} nodes", f"more than {SMALL_UP_TO} nodes", "full nodes")
"""The kinds of clusters."""


def kind_of(case: CaseResult) -> str:
    """Return the kind of the cluster."""
    return FULL if case.is_full else UP_TO if case.nodes <= SMALL_UP_TO else MORE


def by_kind(cases: Iterable[CaseResult]) -> dict[str, Tally]:
    """Return the tally of each kind of clusters."""
    cases = list(cases)
    return {kind: Tally(case for case in cases if kind_of(case) == kind) for kind in KINDS}


def summary(cases: Iterable[CaseResult]) -> str:
    """Return one line with all counts."""
    return "predictions: " + "; ".join(f"{kind}: {tally}" for kind, tally in by_kind(cases).items() if tally.cases)
