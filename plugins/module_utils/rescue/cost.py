# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What a set of victims costs: the order by which one set, on whatever node, is better than another."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ..model.api.pod import Pod
from ..scheduler.cluster_state import ClusterState
from ..scheduler.node_info import PodLoad, pod_key
from ..scheduler.profile import DEFAULT_PROFILES, Profiles
from .critical import effective_priority
from .elsewhere import Elsewhere
from .options import RescueOptions
from .residents import Resident

PRIORITY_OFFSET = 2**31
"""Makes every priority a positive weight, so that more victims never weigh less (kubernetes ``pkg/scheduler/framework/preemption``)."""

NO_VICTIM = -PRIORITY_OFFSET - 1
"""Stands for the highest priority where there is no victim."""


class Cost(t.NamedTuple):
    """A cost; the smaller one is better, each field only breaking ties of those before it.

    ``highest``: the highest priority of a victim. ``weight``: the sum of priority + 2^31. ``number``: of victims. ``tied``: victims that
    are tied to their node by a volume, belong to a gang, or to a Job whose rules do not ignore disruptions. ``homeless``: victims whose
    replacement fits on no other node now. ``alone``: minus the fewest ready pods that an owner of a victim keeps. ``ages``: minus the
    times at which the victims were created, oldest first. ``names``: namespaces and names, in order.

    A set costs more than each of its subsets, so that the cheapest of all sets that do is minimal.
    """

    highest: int
    weight: int
    number: int
    tied: int
    homeless: int
    alone: int
    ages: tuple[int, ...]
    names: tuple[tuple[str, str], ...]


class VictimCosts:
    """Costs of sets of pods that run in a placement."""

    def __init__(self, placement: ClusterState, options: RescueOptions, profiles: Profiles = DEFAULT_PROFILES) -> None:
        self._placement = placement
        self._options = options
        self._elsewhere = Elsewhere(placement, profiles)
        self._homeless: dict[str, bool] = {}
        self._tied: dict[str, bool] = {}
        self._ready_of: dict[str, int] = {}
        self._residents: dict[str, Resident] = {}
        # By the identity of loads, which the pods of one template share: whether any node has room for one more.
        self._roomy: dict[int, tuple[PodLoad, bool]] = {}
        self._gone: t.Optional[set[str]] = None

    def of(self, pods: Iterable[Pod]) -> Cost:
        """What it costs to evict all of them."""
        victims = list(pods)
        priorities = [effective_priority(pod, self._options) for pod in victims]
        return Cost(
            max(priorities, default=NO_VICTIM),
            sum(priorities) + PRIORITY_OFFSET * len(victims),
            len(victims),
            *self.beyond_priority(victims),
            tuple(sorted((pod.metadata.namespace, pod.metadata.name) for pod in victims)),
        )

    def beyond_priority(self, victims: list[Pod]) -> tuple[int, int, int, tuple[int, ...]]:
        """The fields of the cost from ``tied`` to ``ages``. None of them gets smaller with one more victim."""
        residents = [self.resident(pod) for pod in victims]
        leaving = [known.owner for known in residents if known.ready]
        keeps = [self._ready(known.owner) - leaving.count(known.owner) if known.owner else 0 for known in residents]
        return (
            sum([self.is_tied(known) for known in residents]),
            sum([self.is_homeless(pod) for pod in victims]),
            -min(keeps, default=PRIORITY_OFFSET),
            tuple(sorted([known.age for known in residents], reverse=True)),
        )

    def know(self, residents: Iterable[Resident]) -> None:
        """What counts of these pods has been worked out already."""
        for resident in residents:
            self._residents[resident.pod.metadata.uid] = resident

    def resident(self, pod: Pod) -> Resident:
        """What of the pod counts."""
        known = self._residents.get(pod.metadata.uid)
        if known is None:
            known = self._residents[pod.metadata.uid] = Resident.of(pod, PodLoad.of(pod), self._options)
        return known

    def stays(self, resident: Resident) -> int:
        """How many ready pods its owner keeps if it alone goes."""
        owner = resident.owner
        return (self._ready_of.get(owner) or self._ready(owner)) - resident.ready if owner else 0

    def importance(self, resident: Resident) -> tuple[t.Any, ...]:
        """Sorts pods by how bad it is that each of them goes, the least important first."""
        return resident.priority, self.is_tied(resident), -self.stays(resident), resident.age, resident.name

    def is_homeless(self, pod: Pod) -> bool:
        """No other node is surely feasible for its replacement now."""
        known = self._homeless.get(pod.metadata.uid)
        if known is None:
            known = self._homeless[pod.metadata.uid] = not self._elsewhere.fits(pod)
        return known

    def is_surely_homeless(self, resident: Resident) -> bool:
        """No node has the room for its replacement: what ``is_homeless`` can tell at little cost."""
        known = self._roomy.get(id(resident.load))
        if known is None:
            known = self._roomy[id(resident.load)] = (resident.load, self._elsewhere.has_room(resident.pod))
        return not known[1]

    def is_tied(self, resident: Resident) -> bool:
        """The pod is one of those that come last."""
        if resident.in_gang:
            return True
        if not (resident.in_job or resident.mounts_claims):
            return False
        uid = resident.pod.metadata.uid
        known = self._tied.get(uid)
        if known is None:
            in_job = resident.in_job and self._in_job_that_counts(resident)
            known = self._tied[uid] = in_job or (resident.mounts_claims and self._bound_to_node(resident.pod))
        return known

    # --- ties ---

    def _in_job_that_counts(self, resident: Resident) -> bool:
        job = self._placement.snapshot.jobs.get(resident.owner)
        return job is None or not job.ignores_disruptions

    def _bound_to_node(self, pod: Pod) -> bool:
        """Some claim's volume can be reached from no other node, or is not known."""
        snapshot, storage = self._placement.snapshot, self._placement.storage
        if not storage.was_read:
            return True
        for volume in pod.spec.volumes or ():
            if volume.persistent_volume_claim is None:
                continue
            claim = snapshot.claims.get((pod.metadata.namespace, volume.persistent_volume_claim.claim_name))
            bound = storage.volumes.get(claim.spec.volume_name) if claim is not None else None
            if bound is None:
                return True
            reachable = storage.nodes_of(bound)
            others = (node for name, node in snapshot.nodes.items() if name != pod.spec.node_name)
            if reachable is not None and not any(map(reachable, others)):
                return True
        return False

    # --- ready pods ---

    def _ready(self, owner: str) -> int:
        """The owner's pods that are ready and stay in the placement as it is."""
        known = self._ready_of.get(owner)
        if known is None:
            if self._gone is None:
                self._gone = _gone(self._placement)
            pods = self._placement.snapshot.pods_by_owner.get(owner, ())
            gone = self._gone
            staying = [pod for pod in pods if pod_key(pod) not in gone] if gone else pods
            known = self._ready_of[owner] = sum(pod.ready and not pod.terminating and not pod.terminal for pod in staying)
        return known


def _gone(placement: ClusterState) -> set[str]:
    """Keys of the pods that have left their node, and are on no other one, since the snapshot was read."""
    gone: set[str] = set()
    for change in placement.changes:
        if change.amount:
            (gone.add if change.amount < 0 else gone.discard)(pod_key(change.pod))
    return gone
