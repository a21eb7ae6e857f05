# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Each of two hundred pods that no eviction helps is planned for, and others are rescued and released, within the limits.

Only plans and pauses advance the clock."""

from __future__ import annotations

import time
import typing as t
from collections import defaultdict

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue import controller, decisions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import RescueContext, RescuePlan
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.planner import RescuePlanner

from tests.unit.support.fakes import Scene, node, pod, scene

HOPELESS = 200
AGAIN_WITHIN_S = 10.0
RESCUED_WITHIN_S = 2.0
RETURNS_WITHIN_S = 0.5
JUDGE = RescuePlanner.plan_rescue


@pytest.fixture(autouse=True)
def plan_slice() -> None:
    """The limit of the product: the clock of these tests does not depend on the machine."""


class Clock:
    """A clock that only ``wait`` advances. It replaces the module ``time``."""

    def __init__(self) -> None:
        self._now_s = time.monotonic()

    def monotonic(self) -> float:
        return self._now_s

    def wait(self, seconds: float) -> None:
        self._now_s += seconds


class Drive:
    """The loop of a daemon on the test's clock. ``judged_at_s``: the times of each pod's plans, by name."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, judgement_s: float, explanation_s: float, more: t.Sequence[t.Any] = ()) -> None:
        self.clock = Clock()
        self.judged_at_s: defaultdict[str, list[float]] = defaultdict(list)
        for module in (controller, decisions):
            monkeypatch.setattr(module, "time", self.clock)

        def judge(planner: RescuePlanner, of: Pod, context: RescueContext, *, explain: bool = True) -> RescuePlan:
            self.judged_at_s[of.metadata.name].append(self.clock.monotonic())
            self.clock.wait(explanation_s if explain else judgement_s)
            return JUDGE(planner, of, context, explain=explain)

        monkeypatch.setattr(RescuePlanner, "plan_rescue", judge)
        hopeless = [pod(f"hopeless-{number:03}", f"{5000 + number}m") for number in range(HOPELESS)]
        self.on: Scene = scene([node("n")], [pod("v", "900m", on="n"), *hopeless, *more], once=False)

    def until(self, condition: t.Callable[[], t.Any], *, within_s: float) -> float:
        """Tick until the condition is true; the seconds that took. They are at most one tick more than ``within_s``."""
        began_s = self.clock.monotonic()
        while not condition() and self.clock.monotonic() <= began_s + within_s:
            self.turn()
        return self.clock.monotonic() - began_s

    def turn(self) -> None:
        """Run one tick, and wait for the pause that it returns. A daemon ends this pause when something changes; here nothing changes."""
        self.clock.wait(max(0.02, self.on.controller.reconcile()))

    def run_for(self, seconds: float) -> None:
        self.until(lambda: False, within_s=seconds)


@pytest.fixture
def drive(monkeypatch: pytest.MonkeyPatch) -> Drive:
    """Plans that last as long as on 5,000 nodes, so that a round takes most of the time that pods may wait."""
    return Drive(monkeypatch, judgement_s=0.03, explanation_s=0.15)


@pytest.mark.parametrize(("judgement_s", "explanation_s"), [(0.0005, 0.001), (0.03, 0.15)])
def test_every_pod_is_judged_again_within_10_s(monkeypatch: pytest.MonkeyPatch, judgement_s: float, explanation_s: float) -> None:
    drive = Drive(monkeypatch, judgement_s=judgement_s, explanation_s=explanation_s)
    drive.until(lambda: len(drive.judged_at_s) == HOPELESS, within_s=60)
    drive.run_for(60)
    ended_s = drive.clock.monotonic()
    waits = {
        name: max(later - earlier for earlier, later in zip(times, [*times[1:], ended_s], strict=True))
        for name, times in drive.judged_at_s.items()
    }
    assert len(waits) == HOPELESS and max(waits.values()) <= AGAIN_WITHIN_S


def test_a_new_pod_that_can_be_rescued_is_rescued_within_2_s(drive: Drive) -> None:
    """The pod may be created while the reasons for the others are computed, and while the others are planned for again."""
    drive.until(lambda: len(drive.judged_at_s) == HOPELESS, within_s=60)
    for seconds in (0.0, 3.0, 20.0):
        drive.run_for(seconds)
        name = f"z-dns-{seconds:.0f}"
        drive.on.cluster.pods["v"] = pod("v", "900m", on="n")
        drive.on.cluster.pods[name] = pod(name, "500m")
        evicted = len(drive.on.cluster.evicted)
        took_s = drive.until(lambda evicted=evicted: len(drive.on.cluster.evicted) > evicted, within_s=60)
        assert took_s <= RESCUED_WITHIN_S and len(drive.on.cluster.evicted) == evicted + 1
        del drive.on.cluster.pods["v"], drive.on.cluster.pods[name]
        assert drive.until(lambda: drive.on.cluster.held == [], within_s=60) <= RESCUED_WITHIN_S


def test_a_release_and_a_new_pod_and_a_signal_are_handled_between_two_judgements(drive: Drive) -> None:
    """A tick ends after a few plans. Its caller then checks for signals, and the next tick begins with a new snapshot."""
    longest_s, ended_s = 0.0, drive.clock.monotonic() + 60
    while drive.clock.monotonic() < ended_s:
        began_s = drive.clock.monotonic()
        rest_s = drive.on.controller.reconcile()
        longest_s = max(longest_s, drive.clock.monotonic() - began_s)
        drive.clock.wait(max(0.02, rest_s))
    assert len(drive.judged_at_s) == HOPELESS and longest_s <= RETURNS_WITHIN_S
