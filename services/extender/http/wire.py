# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The messages of kube-scheduler to an extender: k8s.io/kube-scheduler ``extender/v1/types.go``.

Go writes the keys of these types capitalised, and reads them in any case. The pods and nodes inside are ordinary Kubernetes JSON.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

from ....plugins.module_utils.model.codec import DecodeError, Raw, Struct, decode_json, encode_json, field
from ..interface import Victims
from .ordinary_args import NodesArgs, OrdinaryArgs, ordinary_args
from .request_pod import RequestPod

NAMES_BY_KEY = {name.lower(): name for name in ("Pod", "Nodes", "NodeNames", "NodeNameToVictims", "NodeNameToMetaVictims")}
VICTIM_KEYS = {name.lower(): name for name in ("Pods", "NumPDBViolations")}
POD_KEYS: Mapping[str, Mapping[str, str]] = {"NodeNameToVictims": {}, "NodeNameToMetaVictims": {"uid": "UID"}}
"""The keys of a victim. Whole pods are ordinary Kubernetes JSON."""


ABSENT = Raw(b"null")
"""The JSON of a part that is not in the body. msgspec does not allow None beside Raw."""


MOST_NODES = 20_000
"""The nodes of a request. Kubernetes supports 5,000."""

LARGE_BODY = 4 * 1024 * 1024
"""The bytes from which names are counted before they are decoded. 20,000 names have at most 5 MB."""


class BadRequestError(ValueError):
    """The body cannot be used. The text says what is expected. ``status``: the code of the answer."""

    status = 400


class TooManyNodesError(BadRequestError):
    """The request has more nodes than any cluster."""

    status = 413

    def __init__(self, most: int) -> None:
        super().__init__(f"the request has more than {most} nodes: this is the limit for the nodes that the extender knows")


class NamesPart(Struct):
    """The names of the nodes, undecoded."""

    names: Raw = field(default=ABSENT, name="NodeNames")


class NodeMeta(Struct):
    """The metadata of a node."""

    name: str


class NodeName(Struct):
    """A node of which only the name is used."""

    metadata: NodeMeta


class ExtenderArgs(NodesArgs):
    """The body of filter and prioritize, with a pod in any form."""

    pod: Raw = field(default=ABSENT, name="Pod")


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


PREEMPTION_TYPE = "ExtenderPreemptionArgs"

T = t.TypeVar("T")


class NodesRequest(t.NamedTuple):
    """A request of filter or prioritize. ``nodes`` has the JSON of the nodes if they came as a whole, and is None otherwise."""

    pod: RequestPod
    names: list[str]
    nodes: list[Raw] | None


class PreemptionRequest(t.NamedTuple):
    """A request of preempt."""

    pod: RequestPod
    candidates: Mapping[str, Victims]


def read_nodes_request(
    body: bytes, most: int = MOST_NODES, ordinary: Callable[[bytes], OrdinaryArgs | None] = ordinary_args
) -> NodesRequest:
    """Return the request in a body, which may have ``most`` nodes. ``ordinary``: as ``ordinary_args``. Raises BadRequestError."""
    if len(body) > LARGE_BODY and bytes(_decoded(NamesPart, body).names).count(b",") >= most:
        raise TooManyNodesError(most)
    found = ordinary(body)
    args: NodesArgs
    if found is None or found.pod is None or (found.node_names is None and found.nodes is None):
        pod, args = _unusual(body)
    else:
        pod, args = RequestPod(found.pod, lambda: bytes(_decoded(ExtenderArgs, body).pod)), found
    if args.node_names is not None:
        return NodesRequest(pod, _limited(args.node_names, most), None)
    if args.nodes is None:
        raise BadRequestError("the body has neither NodeNames nor Nodes: one of them is expected")
    nodes = _limited(args.nodes.items or [], most)
    return NodesRequest(pod, [_decoded(NodeName, node).metadata.name for node in nodes], nodes)


def _unusual(body: bytes) -> tuple[RequestPod, NodesArgs]:
    """Return pod and nodes of a body with null in the pod, with keys in another case, or with an error. Raises BadRequestError."""
    args = _decoded(ExtenderArgs, body)
    if args.pod is ABSENT or (args.node_names is None and args.nodes is None):
        args = _decoded(ExtenderArgs, encode_json(_with_exact_keys(body)))
    return _pod(args.pod), args


def read_preemption_request(body: bytes, most: int = MOST_NODES) -> PreemptionRequest:
    """Return the request in a body, which may have ``most`` nodes. Raises BadRequestError."""
    args = _preemption_args(body)
    pod = _pod(args.pod)
    if len(args.meta or args.victims or ()) > most:
        raise TooManyNodesError(most)
    if args.meta:
        return PreemptionRequest(pod, {name: _victims(one) for name, one in args.meta.items()})
    if args.victims is None and args.meta is None:
        raise BadRequestError("the body has neither NodeNameToMetaVictims nor NodeNameToVictims: one of them is expected")
    return PreemptionRequest(pod, {name: _victims(_meta(one)) for name, one in (args.victims or {}).items()})


def _limited(nodes: list[T], most: int) -> list[T]:
    if len(nodes) > most:
        raise TooManyNodesError(most)
    return nodes


def _preemption_args(body: bytes) -> PreemptionArgs:
    try:
        args = _decoded(PreemptionArgs, body, PREEMPTION_TYPE)
    except BadRequestError as error:
        try:
            exact = _preemption_with_exact_keys(body)
        except BadRequestError:
            raise error from None
        return _decoded(PreemptionArgs, exact, PREEMPTION_TYPE)
    if args.pod is ABSENT or (args.victims is None and args.meta is None):
        return _decoded(PreemptionArgs, _preemption_with_exact_keys(body), PREEMPTION_TYPE)
    return args


def filter_answer(names: list[str], nodes: list[Raw] | None, failed: Mapping[str, str]) -> bytes:
    """Return the ExtenderFilterResult. Nodes that came as a whole are in the answer as a whole, and only their names otherwise."""
    kept = b"null" if nodes is None else b'{"items":[%b]}' % b",".join(map(bytes, nodes))
    kept_names = encode_json(names) if nodes is None else b"null"
    return b'{"Nodes":%b,"NodeNames":%b,"FailedNodes":%b,"FailedAndUnresolvableNodes":{},"Error":""}' % (
        kept,
        kept_names,
        encode_json(failed),
    )


def preemption_answer(candidates: Mapping[str, Victims], names: list[str]) -> bytes:
    """Return the ExtenderPreemptionResult with the victims on the nodes of these names."""
    kept = {name: candidates[name] for name in names}
    result = {name: MetaVictims([MetaPod(uid) for uid in victims.pod_uids], victims.budget_violations) for name, victims in kept.items()}
    return b'{"NodeNameToMetaVictims":%b}' % encode_json(result)


def _pod(data: Raw) -> RequestPod:
    part = bytes(data)
    if part == b"null":
        raise BadRequestError("the body has no Pod")
    try:
        return RequestPod.of(part)
    except DecodeError as error:
        raise BadRequestError(f"the Pod cannot be read: {_reason(error)}") from None


def _meta(victims: PodVictims | None) -> MetaVictims | None:
    return None if victims is None else MetaVictims([MetaPod(pod.metadata.uid) for pod in victims.pods or ()], victims.violations)


def _victims(victims: MetaVictims | None) -> Victims:
    if victims is None:
        return Victims((), 0)
    return Victims([pod.uid for pod in victims.pods or ()], victims.violations)


def _decoded(kind: type[T], data: bytes, body: str = "ExtenderArgs") -> T:
    """Return a part of the body. ``body``: the name of the whole body's type in ``extender/v1/types.go``, for the error."""
    try:
        return decode_json(kind, data)
    except DecodeError as error:
        raise BadRequestError(f"the body is not {body}: {_reason(error)}") from None


def _reason(error: DecodeError) -> str:
    return str(error.__cause__ or error)


# --- keys in another case -----------------------------------------------------------------------------------------------


def _with_exact_keys(body: bytes) -> dict[str, t.Any]:
    """Return the parts of the body by their keys as Go writes them. This is slow, and kube-scheduler never needs it."""
    return _renamed(_decoded(dict[str, Raw], body), NAMES_BY_KEY)


def _preemption_with_exact_keys(body: bytes) -> bytes:
    parts = _with_exact_keys(body)
    for key, pod_keys in POD_KEYS.items():
        if key in parts:
            parts[key] = _victims_with_exact_keys(parts[key], pod_keys)
    return encode_json(parts)


def _victims_with_exact_keys(data: Raw, pod_keys: Mapping[str, str]) -> t.Any:
    nodes: dict[str, dict[str, t.Any] | None] = {}
    for name, victims in (_decoded(VictimsByNode, b'{"nodes":%b}' % bytes(data), PREEMPTION_TYPE).nodes or {}).items():
        if victims is None:
            nodes[name] = None
            continue
        parts = nodes[name] = _renamed(victims, VICTIM_KEYS)
        pods = parts.get("Pods")
        if isinstance(pods, list):
            parts["Pods"] = [_renamed(pod, pod_keys) if isinstance(pod, dict) else pod for pod in pods]
    return nodes


class VictimsByNode(Struct):
    """The victims on each node, with keys in any case."""

    nodes: dict[str, dict[str, t.Any] | None] | None = None


def _renamed(mapping: Mapping[str, t.Any], names: Mapping[str, str]) -> dict[str, t.Any]:
    return {names.get(key.lower(), key): value for key, value in mapping.items()}
