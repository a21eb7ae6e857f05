# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What a set of victims costs: the order by which one set, on whatever node, is better than another."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable

from ..model.objects import Pod, mounts_claims
from ..scheduling.placement import Placement, pod_key
from ..scheduling.profile import STOCK_PROFILES, Profiles
from .critical import effective_priority
from .elsewhere import Elsewhere
from .options import RescueOptions

PRIORITY_OFFSET = 2**31
"""Makes every priority a positive weight, so that more victims never weigh less (kubernetes ``pkg/scheduler/framework/preemption``)."""

NO_VICTIM = -PRIORITY_OFFSET - 1
"""Stands for the highest priority where there is no victim."""

# By which the gang schedulers in use know the members of a gang.
GANG_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "kueue.x-k8s.io/pod-group-name")
GANG_ANNOTATIONS = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "gang.scheduling.koordinator.sh/name",
    "yunikorn.apache.org/task-group-name",
    "pod-group-name",
)


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


class Traits(t.NamedTuple):
    """What of one victim counts after its priority. ``stays``: ready pods of its owner if it alone goes; ``age`` as in ``Cost.ages``."""

    tied: bool
    owner: str
    ready: bool
    stays: int
    age: int


class VictimCosts:
    """Costs of sets of pods that run in a placement."""

    def __init__(self, placement: Placement, options: RescueOptions, profiles: Profiles = STOCK_PROFILES) -> None:
        self._placement = placement
        self._options = options
        self._elsewhere = Elsewhere(placement, profiles)
        self._homeless: dict[str, bool] = {}
        self._ready_of: dict[str, int] = {}
        self._ready_by_conditions: dict[int, bool] = {}
        self._traits: dict[str, Traits] = {}
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
        traits = [self.traits(pod) for pod in victims]
        leaving = Counter(known.owner for known in traits if known.ready)
        keeps = [self._ready(known.owner) - leaving[known.owner] if known.owner else 0 for known in traits]
        return (
            sum(known.tied for known in traits),
            sum(map(self.is_homeless, victims)),
            -min(keeps, default=PRIORITY_OFFSET),
            tuple(sorted((known.age for known in traits), reverse=True)),
        )

    def traits(self, pod: Pod) -> Traits:
        """What of the pod counts after its priority, but for its replacement."""
        known = self._traits.get(pod.metadata.uid)
        if known is None:
            controller = pod.metadata.controller
            owner = controller.uid if controller is not None else ""
            ready = self._is_ready(pod)
            stays = self._ready(owner) - ready if owner else 0
            known = self._traits[pod.metadata.uid] = Traits(
                self.is_tied(pod), owner, ready, stays, -_moment(pod.metadata.creation_timestamp)
            )
        return known

    def importance(self, pod: Pod) -> tuple[t.Any, ...]:
        """Sorts pods by how bad it is that each of them goes, the least important first."""
        known = self.traits(pod)
        name = pod.metadata.namespace, pod.metadata.name
        return effective_priority(pod, self._options), known.tied, self.is_homeless(pod), -known.stays, known.age, name

    def is_homeless(self, pod: Pod) -> bool:
        """No other node is surely feasible for its replacement now."""
        known = self._homeless.get(pod.metadata.uid)
        if known is None:
            known = self._homeless[pod.metadata.uid] = not self._elsewhere.fits(pod)
        return known

    def is_surely_homeless(self, pod: Pod) -> bool:
        """No other node has the room for its replacement: what ``is_homeless`` can tell at little cost."""
        return not self._elsewhere.has_room(pod)

    def is_tied(self, pod: Pod) -> bool:
        """The pod is one of those that come last."""
        return _in_gang(pod) or self._in_job_that_counts(pod) or (mounts_claims(pod) and self._bound_to_node(pod))

    # --- ties ---

    def _in_job_that_counts(self, pod: Pod) -> bool:
        controller = pod.metadata.controller
        if controller is None or controller.kind != "Job":
            return False
        job = self._placement.snapshot.jobs.get(controller.uid)
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
            known = self._ready_of[owner] = sum(self._is_ready(pod) for pod in pods if not gone or pod_key(pod) not in gone)
        return known

    def _is_ready(self, pod: Pod) -> bool:
        if pod.metadata.deletion_timestamp is not None or pod.terminal:
            return False
        # Pods in the same state share their conditions, and the snapshot keeps them alive.
        key = id(pod.status.conditions)
        known = self._ready_by_conditions.get(key)
        if known is None:
            known = self._ready_by_conditions[key] = pod.ready
        return known


def _in_gang(pod: Pod) -> bool:
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    if pod.spec.scheduling_group is not None:
        return True
    by_label = labels is not None and any(key in labels for key in GANG_LABELS)
    return by_label or (annotations is not None and any(key in annotations for key in GANG_ANNOTATIONS))


def _gone(placement: Placement) -> set[str]:
    """Keys of the pods that have left their node, and are on no other one, since the snapshot was read."""
    gone: set[str] = set()
    for change in placement.changes:
        if change.amount:
            (gone.add if change.amount < 0 else gone.discard)(pod_key(change.pod))
    return gone


def _moment(timestamp: str) -> int:
    """The time as a number that grows with it; 0 where there is none. The API server writes all times in one form and zone."""
    digits = "".join(filter(str.isdigit, timestamp))
    return int(digits) if digits else 0
