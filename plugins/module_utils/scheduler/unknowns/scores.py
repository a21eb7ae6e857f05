# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The reasons why the scores of a pod are not known. A score that is not known is never computed."""

from __future__ import annotations

from ...model.api.pod import Pod, extended_resources
from ...model.reason import Reason, Reasons
from ...model.scheduler_profile import Profiles
from ...model.snapshot import ClusterSnapshot
from .reasons import FOREIGN_SCHEDULER, PODS_NOT_READABLE

BY_EXTENDER = Reason("depends_on_extender", "an extender of the scheduler scores nodes for the pod because of a resource that it manages")


def score_unknowns(pod: Pod, snapshot: ClusterSnapshot, profiles: Profiles) -> Reasons:
    """Return the reasons of the pod, the profile and the snapshot that make all scores uncertain."""
    found: list[Reason] = []
    profile = profiles.get(pod.spec.scheduler_name)
    if profile is None:
        found.append(FOREIGN_SCHEDULER)
    else:
        found += profile.scores.unknown
        if profile.scores.extender_resources & extended_resources(pod):
            found.append(BY_EXTENDER)
    if not snapshot.complete_pods:
        found.append(PODS_NOT_READABLE)
    # The number of the nodes counts for the score of a node. A pod that cannot be decoded makes only its node uncertain, for the filters.
    return (*found, *(one.reason for one in snapshot.undecodable_of("Node")[:1]))
