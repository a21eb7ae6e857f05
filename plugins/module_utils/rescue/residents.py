# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods of a node as those that plan a rescue see them: what of each counts, whoever needs the room."""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import lru_cache

from ..model.api.pod import Pod, mounts_claims
from ..model.reason import Reason
from ..model.undecodable import UNDECODABLE, UndecodablePod
from ..model.values.timestamps import read_time
from ..scheduler.node_info import NodeInfo, PodLoad
from ..scheduler.pod_requests import CPU
from .budgets import alike
from .critical import effective_priority, is_protected
from .options import RescueOptions

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
SAFE_TO_EVICT_ANNOTATION = "cluster-autoscaler.kubernetes.io/safe-to-evict"
DEFAULT_GRACE_PERIOD_S = 30
"""What the API server gives to pods that ask for no grace period."""

# By which the gang schedulers in use know the members of a gang.
GANG_LABELS = ("scheduling.x-k8s.io/pod-group", "pod-group.scheduling.sigs.k8s.io", "kueue.x-k8s.io/pod-group-name")
GANG_ANNOTATIONS = (
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "gang.scheduling.koordinator.sh/name",
    "yunikorn.apache.org/task-group-name",
    "pod-group-name",
)

NOT_DECODABLE = Reason(UNDECODABLE, "it cannot be decoded")
TERMINATING = Reason("terminating", "it is on its way out already")
NOT_BOUND = Reason("not_bound", "it has yet to come to the node")
STATIC = Reason("static", "the kubelet runs it from a file")
DAEMON_SET = Reason("daemon_set", "its DaemonSet would start it on the same node again")
NOT_SAFE_TO_EVICT = Reason("not_safe_to_evict", f'it is annotated {SAFE_TO_EVICT_ANNOTATION}: "false"')
BARE = Reason("bare_pod", "no controller would start it elsewhere; allow_bare_pods would allow it")
LOCAL_STORAGE = Reason("local_storage", "it keeps data on the node; allow_local_storage would allow it")
GRACE_TOO_LONG = "grace_too_long"


class Resident(t.NamedTuple):
    """A pod of a node. ``never``: why it may not be evicted whatever the options say; ``by_options``: why not by these.

    ``owner``: uid of its controller, empty where it has none. ``age``: minus the time at which it was created. ``in_gang``, ``in_job`` and
    ``mounts_claims``: what may tie it to where it is. ``budget_kind``: as of ``budgets.alike``.
    """

    pod: Pod
    load: PodLoad
    priority: int
    protected: bool
    never: t.Optional[Reason]
    by_options: t.Optional[Reason]
    owner: str
    ready: bool
    age: int
    name: tuple[str, str]
    in_gang: bool
    in_job: bool
    mounts_claims: bool
    budget_kind: Hashable

    @classmethod
    def of(cls, pod: Pod, load: PodLoad, options: RescueOptions) -> Resident:
        """What counts of the pod by these options."""
        metadata = pod.metadata
        controller = metadata.controller
        return cls(
            pod,
            load,
            effective_priority(pod, options),
            is_protected(pod, options),
            next((reason for reason, applies in _NEVER if applies(pod)), None),
            _by_options(pod, options),
            controller.uid if controller is not None else "",
            pod.ready and not pod.terminating and not pod.terminal,
            -int(read_time(metadata.creation_timestamp) or 0),
            (metadata.namespace, metadata.name),
            _in_gang(pod),
            controller is not None and controller.kind == "Job",
            mounts_claims(pod),
            alike(pod),
        )


class Residents(t.NamedTuple):
    """The pods bound to a node. ``movable``: those that may go for some pod, by priority and then by cpu, the lowest first."""

    options: RescueOptions
    everybody: tuple[Resident, ...]
    movable: tuple[Resident, ...]


def residents_of(info: NodeInfo, options: RescueOptions) -> Residents:
    """The pods of the node by these options but for ``max_victims``; kept with the node for as long as nothing changes on it."""
    noted = info.planner_cache
    if isinstance(noted, Residents) and _keep_the_same(noted.options, options):
        return noted
    name = info.node.metadata.name
    everybody = tuple(Resident.of(pod, load, options) for pod, load in info.pods.values() if pod.spec.node_name == name)
    movable = [resident for resident in everybody if resident.never is None and resident.by_options is None]
    movable.sort(key=lambda resident: (resident.priority, resident.load.requests.get(CPU, 0)))
    found = info.planner_cache = Residents(options, everybody, tuple(movable))
    return found


def _keep_the_same(some: RescueOptions, others: RescueOptions) -> bool:
    return some is others or some == others or replace(some, max_victims=others.max_victims) == others


def own_grace(pod: Pod) -> int:
    """The whole seconds that the pod asks for to end. The API server makes 1 of a negative number (``registry/core/pod/strategy.go``)."""
    seconds = pod.spec.termination_grace_period_seconds
    if seconds is None:
        return DEFAULT_GRACE_PERIOD_S
    return seconds if seconds >= 0 else 1


def controlled_by(pod: Pod, kind: str) -> bool:
    """The pod's controller is of that kind."""
    controller = pod.metadata.controller
    return controller is not None and controller.kind == kind


def _by_options(pod: Pod, options: RescueOptions) -> t.Optional[Reason]:
    if (pod.metadata.annotations or {}).get(SAFE_TO_EVICT_ANNOTATION) == "false":
        return NOT_SAFE_TO_EVICT
    if not options.allow_bare_pods and pod.metadata.controller is None:
        return BARE
    if not options.allow_local_storage and any(volume.local for volume in pod.spec.volumes or ()):
        return LOCAL_STORAGE
    if not options.allow_short_grace and own_grace(pod) > options.grace_period:
        return _grace_too_long(options.grace_period)
    return None


@lru_cache(maxsize=16)
def _grace_too_long(cap_s: int) -> Reason:
    return Reason(
        GRACE_TOO_LONG,
        f"its own grace period is longer than grace_period, {cap_s} s: raise that (most pods have 30 s), or set allow_short_grace",
    )


def _is_static(pod: Pod) -> bool:
    owners = pod.metadata.owner_references or ()
    return MIRROR_ANNOTATION in (pod.metadata.annotations or {}) or any(owner.kind == "Node" for owner in owners)


_NEVER: tuple[tuple[Reason, Callable[[Pod], bool]], ...] = (
    (NOT_DECODABLE, lambda pod: isinstance(pod, UndecodablePod)),
    (NOT_BOUND, lambda pod: not pod.spec.node_name),
    (TERMINATING, lambda pod: pod.terminating),
    (STATIC, _is_static),
    (DAEMON_SET, lambda pod: controlled_by(pod, "DaemonSet")),
)


def _in_gang(pod: Pod) -> bool:
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    if pod.spec.scheduling_group is not None:
        return True
    by_label = labels is not None and any(key in labels for key in GANG_LABELS)
    return by_label or (annotations is not None and any(key in annotations for key in GANG_ANNOTATIONS))
