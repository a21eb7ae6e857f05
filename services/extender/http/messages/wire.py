# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The messages of filter and prioritize: ExtenderArgs and ExtenderFilterResult of k8s.io/kube-scheduler ``extender/v1/types.go``.

Go writes the keys of these types capitalised, and reads them in any case. The pods and nodes inside are ordinary Kubernetes JSON.
``ordinary_args`` decodes the bodies that kube-scheduler writes, in one pass. A body that it cannot decode is decoded here, in a slow way.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Mapping

from .....plugins.module_utils.model.codec import Raw, Struct, encode_json, field
from .ordinary_args import NodesArgs, OrdinaryArgs, ordinary_args
from .request_parts import MOST_NODES, BadRequestError, TooManyNodesError, decoded, limited, pod_of, with_exact_keys
from .request_pod import ABSENT, RequestPod

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


class ExtenderArgs(NodesArgs):
    """The body of filter and prioritize, with a pod in any form."""

    pod: Raw = field(default=ABSENT, name="Pod")


class NodesRequest(t.NamedTuple):
    """A request of filter or prioritize. ``nodes`` has the JSON of the nodes if they came as a whole, and is None otherwise."""

    pod: RequestPod
    names: list[str]
    nodes: list[Raw] | None


def read_nodes_request(
    body: bytes, most: int = MOST_NODES, ordinary: Callable[[bytes], OrdinaryArgs | None] = ordinary_args
) -> NodesRequest:
    """Return the request in a body, which may have ``most`` nodes. ``ordinary``: as ``ordinary_args``. Raises BadRequestError."""
    if len(body) > LARGE_BODY and bytes(decoded(NamesPart, body).names).count(b",") >= most:
        raise TooManyNodesError(most)
    found = ordinary(body)
    args: NodesArgs
    if found is None or found.pod is None or (found.node_names is None and found.nodes is None):
        pod, args = _unusual(body)
    else:
        pod, args = RequestPod(found.pod, lambda: bytes(decoded(ExtenderArgs, body).pod)), found
    if args.node_names is not None:
        return NodesRequest(pod, limited(args.node_names, most), None)
    if args.nodes is None:
        raise BadRequestError("the body has neither NodeNames nor Nodes: one of them is expected")
    nodes = limited(args.nodes.items or [], most)
    return NodesRequest(pod, [decoded(NodeName, node).metadata.name for node in nodes], nodes)


def _unusual(body: bytes) -> tuple[RequestPod, NodesArgs]:
    """Return pod and nodes of a body with null in the pod, with keys in another case, or with an error. Raises BadRequestError."""
    args = decoded(ExtenderArgs, body)
    if args.pod is ABSENT or (args.node_names is None and args.nodes is None):
        args = decoded(ExtenderArgs, encode_json(with_exact_keys(body)))
    return pod_of(args.pod), args


def filter_answer(names: list[str], nodes: list[Raw] | None, failed: Mapping[str, str]) -> bytes:
    """Return the ExtenderFilterResult. Nodes that came as a whole are in the answer as a whole, and only their names otherwise."""
    kept = b"null" if nodes is None else b'{"items":[%b]}' % b",".join(map(bytes, nodes))
    kept_names = encode_json(names) if nodes is None else b"null"
    return b'{"Nodes":%b,"NodeNames":%b,"FailedNodes":%b,"FailedAndUnresolvableNodes":{},"Error":""}' % (
        kept,
        kept_names,
        encode_json(failed),
    )
