# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The messages of kube-scheduler to an extender, and the answers (k8s.io/kube-scheduler ``extender/v1/types.go``).

Go writes the keys of these types capitalised. The pods and nodes inside are ordinary Kubernetes JSON.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from functools import cached_property

from ....plugins.module_utils.model.api.pod import Pod
from ....plugins.module_utils.model.codec import DecodeError, Raw, Struct, decode_json, decode_object, encode_json, field
from ..engine.dithering import table_key
from ..interface import PodView, Victims
from ..sources.kubernetes.pod_objects import demand_of, owner_name

ABSENT_JSON = b"null"
ABSENT = Raw(ABSENT_JSON)
"""The JSON of a part that is not there. msgspec does not allow None beside Raw."""

MOST_NODES = 20_000
"""The nodes of a request. Kubernetes supports 5,000."""

LARGE_BODY = 4 * 1024 * 1024
"""The bytes from which names are counted before they are decoded. 20,000 names have at most 5 MB."""

MOST_POD_BYTES = 4 * 1024 * 1024
"""The bytes of a pod whose demand is read. etcd does not store one with more than 1.5 MiB. Empty containers need 15 times their memory."""

T = t.TypeVar("T")


class BadRequestError(ValueError):
    """The body cannot be used. The text says what is expected. ``status``: the code of the answer."""

    status = 400


class TooManyNodesError(BadRequestError):
    """The request has more nodes than any cluster."""

    status = 413

    def __init__(self, most: int) -> None:
        super().__init__(f"the request has more than {most} nodes: this is the limit for the nodes that the extender knows")


class PodMeta(Struct):
    """The identity of a pod."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


class PodSpecHead(Struct):
    """The field of a pod's spec that selects the profile."""

    scheduler_name: str = field(default="", name="schedulerName")


class PodHead(Struct):
    """The fields of a pod that every request needs. A pod whose other fields cannot be read has them, too."""

    metadata: PodMeta = field(default_factory=PodMeta)
    spec: PodSpecHead = field(default_factory=PodSpecHead)


class RequestPod:
    """The pod of a request. ``data``: its JSON. Raises DecodeError."""

    def __init__(self, data: bytes) -> None:
        head = decode_object(PodHead, data)
        self.data, self.scheduler_name = data, head.spec.scheduler_name
        self.namespace, self.name, self.uid = head.metadata.namespace, head.metadata.name, head.metadata.uid

    @property
    def key(self) -> str:
        """Return what selects the table."""
        return table_key(self.namespace, self.name, self.uid)

    @cached_property
    def view(self) -> PodView:
        """Return the pod as agents see it. Raises BadRequestError."""
        try:
            if len(self.data) > MOST_POD_BYTES:
                raise ValueError(f"it has more than {MOST_POD_BYTES} bytes")
            pod = decode_object(Pod, self.data)
            demand = demand_of(pod, pod.metadata.annotations or {}, from_status=False)
        except ValueError as error:
            raise BadRequestError(f"the demand of Pod {self.namespace}/{self.name} cannot be read: {error}") from None
        labels, owner = pod.metadata.labels or {}, pod.metadata.controller
        return PodView(self.namespace, self.name, self.uid, self.scheduler_name, labels, demand, owner=owner_name(owner, labels))


def pod_of(data: Raw) -> RequestPod:
    """Return the pod of a request. Raises BadRequestError."""
    part = bytes(data)
    if part == ABSENT_JSON:
        raise BadRequestError("the body has no Pod")
    try:
        return RequestPod(part)
    except DecodeError as error:
        raise BadRequestError(f"the Pod cannot be read: {_reason(error)}") from None


def decoded(kind: type[T], data: bytes, body: str = "ExtenderArgs") -> T:
    """Return a part of the body. ``body``: the name of the whole body's type in ``extender/v1/types.go``, for the error.

    Raises BadRequestError.
    """
    try:
        return decode_json(kind, data)
    except DecodeError as error:
        raise BadRequestError(f"the body is not {body}: {_reason(error)}") from None


def _reason(error: DecodeError) -> str:
    return str(error.__cause__ or error)


# --- filter and prioritize ---


class NamesPart(Struct):
    """The names of the nodes, undecoded."""

    names: Raw = field(default=ABSENT, name="NodeNames")


class NodeMeta(Struct):
    """The metadata of a node."""

    name: str


class NodeName(Struct):
    """A node of which only the name is used."""

    metadata: NodeMeta


class NamedNodes(Struct):
    """A NodeList of which only the names are used."""

    items: list[NodeName] | None = None


class WholeNodes(Struct):
    """A NodeList. Each node stays undecoded, because the answer contains it unchanged."""

    items: list[Raw] | None = None


class NodesPart(Struct):
    """The nodes of a request. They are decoded after their names, because millions of digits could be in place of the nodes."""

    nodes: WholeNodes = field(name="Nodes")


class ExtenderArgs(Struct):
    """The body of filter and prioritize. The pod stays undecoded, because it can have fields that cannot be read."""

    pod: Raw = field(default=ABSENT, name="Pod")
    node_names: list[str] | None = field(default=None, name="NodeNames")
    nodes: NamedNodes | None = field(default=None, name="Nodes")


class NodesRequest(t.NamedTuple):
    """A request of filter or prioritize. ``nodes`` has the JSON of the nodes if they came as a whole, and is None otherwise."""

    pod: RequestPod
    names: list[str]
    nodes: list[Raw] | None


def read_nodes_request(body: bytes, most: int = MOST_NODES) -> NodesRequest:
    """Return the request in a body, which may have ``most`` nodes. Raises BadRequestError."""
    if len(body) > LARGE_BODY and bytes(decoded(NamesPart, body).names).count(b",") >= most:
        raise TooManyNodesError(most)
    args = decoded(ExtenderArgs, body)
    pod, names = pod_of(args.pod), args.node_names
    if names is None:
        if args.nodes is None:
            raise BadRequestError("the body has neither NodeNames nor Nodes: one of them is expected")
        names = [node.metadata.name for node in args.nodes.items or ()]
    if len(names) > most:
        raise TooManyNodesError(most)
    return NodesRequest(pod, names, decoded(NodesPart, body).nodes.items or [] if args.node_names is None else None)


def filter_answer(names: list[str], nodes: list[Raw] | None, failed: Mapping[str, str]) -> bytes:
    """Return the ExtenderFilterResult. Nodes that came as a whole are in the answer as a whole, and only their names otherwise."""
    kept = b"null" if nodes is None else b'{"items":[%b]}' % b",".join(map(bytes, nodes))
    kept_names = encode_json(names) if nodes is None else b"null"
    return b'{"Nodes":%b,"NodeNames":%b,"FailedNodes":%b,"FailedAndUnresolvableNodes":{},"Error":""}' % (
        kept,
        kept_names,
        encode_json(failed),
    )


# --- preempt ---


class MetaPod(Struct):
    """A victim, by its UID."""

    uid: str = field(name="UID")


class MetaVictims(Struct):
    """The victims on a node, with the number of violated PodDisruptionBudgets.

    Go always writes both keys. A request without one of them is refused, because a violated budget could look kept.
    """

    pods: list[MetaPod] | None = field(name="Pods")
    violations: int = field(name="NumPDBViolations")


class VictimPod(Struct):
    """A victim as a whole pod, of which only the UID is used."""

    metadata: PodMeta


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
