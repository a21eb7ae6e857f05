# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The log names each scheduler name without a profile once, and a flood of names does not fill it."""

from __future__ import annotations

import io
import json

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.log import set_up_log
from ansible_collections.onprem.kube_scheduling.services.extender.engine.recent_pods import RecentPods
from ansible_collections.onprem.kube_scheduling.services.extender.http.scheduler_api import SchedulerApi
from ansible_collections.onprem.kube_scheduling.services.extender.http.unprofiled_pods import MAX_LENGTH, MAX_NAMES, UnprofiledPods
from ansible_collections.onprem.kube_scheduling.services.extender.metrics import Metrics

from tests.unit.services.extender.extender_objects import ScoreAgent, body, engine, names_body, pod, profile


class Lines:
    """The pods without a profile, and the lines of their log."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        self.log = set_up_log("extender-test", form="json", level="info", stream=self._stream)
        self.pods = UnprofiledPods(self.log)

    @property
    def names(self) -> list[str | None]:
        return [json.loads(line).get("scheduler_name") for line in self._stream.getvalue().splitlines()]


@pytest.fixture
def lines() -> Lines:
    return Lines()


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt"])
def test_a_name_without_a_profile_is_logged_once(lines: Lines, verb: str) -> None:
    metrics = Metrics(lines.log)
    api = SchedulerApi(engine(profile(ScoreAgent()), metrics=metrics), metrics, RecentPods(), on_no_profile=lines.pods.note)

    def request(scheduler: str) -> bytes:
        if verb == "preempt":
            return body(Pod=pod(scheduler=scheduler), NodeNameToMetaVictims={})
        return names_body(["a"], scheduler=scheduler)

    for scheduler in ("other", "quiet", "other", "third"):
        api.handler(f"/scheduler/{verb}")(request(scheduler))
    assert lines.names == ["other", "third"]


def test_a_flood_of_names_ends_with_one_line(lines: Lines) -> None:
    for number in range(10 * MAX_NAMES):
        lines.pods.note(f"flood-{number}")
    assert lines.names == [*(f"flood-{number}" for number in range(MAX_NAMES)), None]


def test_a_long_name_is_shortened(lines: Lines) -> None:
    long = "x" * 100_000
    lines.pods.note(long)
    lines.pods.note(long + "y")
    assert lines.names == ["x" * MAX_LENGTH]
