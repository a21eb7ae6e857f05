# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The message of kube-scheduler to the verb preempt: ExtenderPreemptionArgs and ExtenderPreemptionResult of ``extender/v1/types.go``."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from .....plugins.module_utils.model.codec import Raw, Struct, encode_json, field
from ...interface import Victims
from .request_parts import ABSENT, MOST_NODES, BadRequestError, RequestPod, TooManyNodesError, decoded, pod_of


class MetaPod(Struct):
    """A victim, by its UID."""

    uid: str = field(name="UID")


class MetaVictims(Struct):
    """The victims on a node, with the number of violated PodDisruptionBudgets.

    Go always writes both keys. A request without one of them is refused, because a violated budget could look kept.
    """

    pods: list[MetaPod] | None = field(name="Pods")
    violations: int = field(name="NumPDBViolations")


class VictimMeta(Struct):
    """The metadata of a victim."""

    uid: str = ""


class VictimPod(Struct):
    """A victim as a whole pod, of which only the UID is used."""

    metadata: VictimMeta


class PodVictims(Struct):
    """The victims on a node as whole pods."""

    pods: list[VictimPod] | None = field(name="Pods")
    violations: int = field(name="NumPDBViolations")


class PreemptionArgs(Struct):
    """The body of preempt. ``meta`` is used with nodeCacheCapable, ``victims`` without."""

    pod: Raw = field(default=ABSENT, name="Pod")
    victims: dict[str, PodVictims | None] | None = field(default=None, name="NodeNameToVictims")
    meta: dict[str, MetaVictims | None] | None = field(default=None, name="NodeNameToMetaVictims")


class PreemptionRequest(t.NamedTuple):
    """A request of preempt."""

    pod: RequestPod
    candidates: Mapping[str, Victims]


def read_preemption_request(body: bytes, most: int = MOST_NODES) -> PreemptionRequest:
    """Return the request in a body, which may have ``most`` nodes. Raises BadRequestError."""
    args = decoded(PreemptionArgs, body, "ExtenderPreemptionArgs")
    pod = pod_of(args.pod)
    candidates: Mapping[str, MetaVictims | PodVictims | None] = args.meta or args.victims or {}
    if args.meta is None and args.victims is None:
        raise BadRequestError("the body has neither NodeNameToMetaVictims nor NodeNameToVictims: one of them is expected")
    if len(candidates) > most:
        raise TooManyNodesError(most)
    return PreemptionRequest(pod, {name: _victims(found) for name, found in candidates.items()})


def preemption_answer(candidates: Mapping[str, Victims], names: list[str]) -> bytes:
    """Return the ExtenderPreemptionResult with the victims on the nodes of these names."""
    kept = {name: candidates[name] for name in names}
    result = {name: MetaVictims([MetaPod(uid) for uid in victims.pod_uids], victims.budget_violations) for name, victims in kept.items()}
    return b'{"NodeNameToMetaVictims":%b}' % encode_json(result)


def _victims(found: MetaVictims | PodVictims | None) -> Victims:
    if found is None:
        return Victims((), 0)
    uids = [pod.metadata.uid if isinstance(pod, VictimPod) else pod.uid for pod in found.pods or ()]
    return Victims(uids, found.violations)
