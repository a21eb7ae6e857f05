# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The message of kube-scheduler to the verb preempt: ExtenderPreemptionArgs and ExtenderPreemptionResult of ``extender/v1/types.go``."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from .....plugins.module_utils.model.codec import Raw, Struct, encode_json, field
from ...interface import Victims
from .request_parts import MOST_NODES, BadRequestError, TooManyNodesError, decoded, pod_of, renamed, with_exact_keys
from .request_pod import ABSENT, RequestPod

VICTIM_KEYS = {name.lower(): name for name in ("Pods", "NumPDBViolations")}
POD_KEYS: Mapping[str, Mapping[str, str]] = {"NodeNameToVictims": {}, "NodeNameToMetaVictims": {"uid": "UID"}}
"""The keys of a victim. Whole pods are ordinary Kubernetes JSON."""
TYPE = "ExtenderPreemptionArgs"


class MetaPod(Struct):
    """A victim, by its UID."""

    uid: str = field(name="UID")


class MetaVictims(Struct):
    """The victims on a node, with the number of violated PodDisruptionBudgets.

    Go always writes both keys. An absent one has another case, and no budget may look kept because of that.
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
    args = _preemption_args(body)
    pod = pod_of(args.pod)
    if len(args.meta or args.victims or ()) > most:
        raise TooManyNodesError(most)
    if args.meta:
        return PreemptionRequest(pod, {name: _victims(one) for name, one in args.meta.items()})
    if args.victims is None and args.meta is None:
        raise BadRequestError("the body has neither NodeNameToMetaVictims nor NodeNameToVictims: one of them is expected")
    return PreemptionRequest(pod, {name: _victims(_meta(one)) for name, one in (args.victims or {}).items()})


def _preemption_args(body: bytes) -> PreemptionArgs:
    try:
        args = decoded(PreemptionArgs, body, TYPE)
    except BadRequestError as error:
        try:
            exact = _preemption_with_exact_keys(body)
        except BadRequestError:
            raise error from None
        return decoded(PreemptionArgs, exact, TYPE)
    if args.pod is ABSENT or (args.victims is None and args.meta is None):
        return decoded(PreemptionArgs, _preemption_with_exact_keys(body), TYPE)
    return args


def preemption_answer(candidates: Mapping[str, Victims], names: list[str]) -> bytes:
    """Return the ExtenderPreemptionResult with the victims on the nodes of these names."""
    kept = {name: candidates[name] for name in names}
    result = {name: MetaVictims([MetaPod(uid) for uid in victims.pod_uids], victims.budget_violations) for name, victims in kept.items()}
    return b'{"NodeNameToMetaVictims":%b}' % encode_json(result)


def _meta(victims: PodVictims | None) -> MetaVictims | None:
    return None if victims is None else MetaVictims([MetaPod(pod.metadata.uid) for pod in victims.pods or ()], victims.violations)


def _victims(victims: MetaVictims | None) -> Victims:
    if victims is None:
        return Victims((), 0)
    return Victims([pod.uid for pod in victims.pods or ()], victims.violations)


# --- keys in another case -----------------------------------------------------------------------------------------------


def _preemption_with_exact_keys(body: bytes) -> bytes:
    parts = with_exact_keys(body)
    for key, pod_keys in POD_KEYS.items():
        if key in parts:
            parts[key] = _victims_with_exact_keys(parts[key], pod_keys)
    return encode_json(parts)


def _victims_with_exact_keys(data: Raw, pod_keys: Mapping[str, str]) -> t.Any:
    nodes: dict[str, dict[str, t.Any] | None] = {}
    for name, victims in (decoded(VictimsByNode, b'{"nodes":%b}' % bytes(data), TYPE).nodes or {}).items():
        if victims is None:
            nodes[name] = None
            continue
        parts = nodes[name] = renamed(victims, VICTIM_KEYS)
        pods = parts.get("Pods")
        if isinstance(pods, list):
            parts["Pods"] = [renamed(pod, pod_keys) if isinstance(pod, dict) else pod for pod in pods]
    return nodes


class VictimsByNode(Struct):
    """The victims on each node, with keys in any case."""

    nodes: dict[str, dict[str, t.Any] | None] | None = None
