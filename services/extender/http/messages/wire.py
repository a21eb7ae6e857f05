# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The messages of filter and prioritize: ExtenderArgs and ExtenderFilterResult of k8s.io/kube-scheduler ``extender/v1/types.go``.

Go writes the keys of these types capitalised. The pods and nodes inside are ordinary Kubernetes JSON.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from .....plugins.module_utils.model.codec import Raw, Struct, encode_json, field
from .request_parts import ABSENT, MOST_NODES, BadRequestError, RequestPod, TooManyNodesError, decoded, pod_of

LARGE_BODY = 4 * 1024 * 1024
"""The bytes from which names are counted before they are decoded. 20,000 names have at most 5 MB."""


class NamesPart(Struct):
    """The names of the nodes, undecoded."""

    names: Raw = field(default=ABSENT, name="NodeNames")


class NodeMeta(Struct):
    """The metadata of a node."""

    name: str


class NodeName(Struct):
    """A node of which only the name is used."""

    metadata: NodeMeta


class NodeList(Struct):
    """A NodeList. Each node stays undecoded, because the answer contains it unchanged."""

    items: list[Raw] | None = None


class ExtenderArgs(Struct):
    """The body of filter and prioritize. The pod stays undecoded, because it can have fields that cannot be read."""

    pod: Raw = field(default=ABSENT, name="Pod")
    node_names: list[str] | None = field(default=None, name="NodeNames")
    nodes: NodeList | None = field(default=None, name="Nodes")


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
    pod, names, nodes = pod_of(args.pod), args.node_names, None
    if names is None:
        if args.nodes is None:
            raise BadRequestError("the body has neither NodeNames nor Nodes: one of them is expected")
        nodes = args.nodes.items or []
    if len(names or nodes or ()) > most:
        raise TooManyNodesError(most)
    return NodesRequest(pod, [decoded(NodeName, node).metadata.name for node in nodes or ()] if names is None else names, nodes)


def filter_answer(names: list[str], nodes: list[Raw] | None, failed: Mapping[str, str]) -> bytes:
    """Return the ExtenderFilterResult. Nodes that came as a whole are in the answer as a whole, and only their names otherwise."""
    kept = b"null" if nodes is None else b'{"items":[%b]}' % b",".join(map(bytes, nodes))
    kept_names = encode_json(names) if nodes is None else b"null"
    return b'{"Nodes":%b,"NodeNames":%b,"FailedNodes":%b,"FailedAndUnresolvableNodes":{},"Error":""}' % (
        kept,
        kept_names,
        encode_json(failed),
    )
