# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scores that an engine gives to a pod."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.services.extender.engine.engine import Engine
from ansible_collections.onprem.kube_scheduling.services.extender.engine.fragments import answer_of
from ansible_collections.onprem.kube_scheduling.services.extender.interface import PodView

from tests.unit.services.extender.extender_objects import (
    PROFILE,
    pod_view,
    scores_in,
)

NAMES = ("a", "b", "c")


def no_pod() -> PodView:
    """Return no pod: the scores do not depend on it."""
    raise AssertionError("the scores do not depend on the pod")


def scores(one: Engine, *, uid: str = "u1", cpu: int | None = None, names: tuple[str, ...] = NAMES) -> dict[str, int]:
    """Return the scores of a pod with this UID, which requests the millicores, or of any pod."""
    state = one.state_for(PROFILE)
    assert state is not None
    return scores_in(answer_of(state.table(uid, no_pod if cpu is None else lambda: pod_view(uid, cpu)), names))


def totals(one: Engine) -> dict[str, float]:
    """Return the exact scores of a pod without requests."""
    state = one.state_for(PROFILE)
    assert state is not None
    return dict(zip(state.nodes.names, state.scores(lambda: pod_view()).totals(), strict=True))
