# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The parts that all messages of kube-scheduler to an extender have in common: their decoding, their keys, their pod and their errors."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from .....plugins.module_utils.model.codec import DecodeError, Raw, decode_json
from .request_pod import ABSENT_JSON, RequestPod

NAMES_BY_KEY = {name.lower(): name for name in ("Pod", "Nodes", "NodeNames", "NodeNameToVictims", "NodeNameToMetaVictims")}

MOST_NODES = 20_000
"""The nodes of a request. Kubernetes supports 5,000."""

T = t.TypeVar("T")


class BadRequestError(ValueError):
    """The body cannot be used. The text says what is expected. ``status``: the code of the answer."""

    status = 400


class TooManyNodesError(BadRequestError):
    """The request has more nodes than any cluster."""

    status = 413

    def __init__(self, most: int) -> None:
        super().__init__(f"the request has more than {most} nodes: this is the limit for the nodes that the extender knows")


def limited(nodes: list[T], most: int) -> list[T]:
    """Return the nodes. Raises TooManyNodesError if there are more than ``most``."""
    if len(nodes) > most:
        raise TooManyNodesError(most)
    return nodes


def pod_of(data: Raw) -> RequestPod:
    """Return the pod of a request. Raises BadRequestError."""
    part = bytes(data)
    if part == ABSENT_JSON:
        raise BadRequestError("the body has no Pod")
    try:
        return RequestPod.of(part)
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


def with_exact_keys(body: bytes) -> dict[str, t.Any]:
    """Return the parts of the body by their keys as Go writes them. This is slow, and kube-scheduler never needs it."""
    return renamed(decoded(dict[str, Raw], body), NAMES_BY_KEY)


def renamed(mapping: Mapping[str, t.Any], names: Mapping[str, str]) -> dict[str, t.Any]:
    """Return the mapping with the keys that ``names`` has for the keys in lower case. Other keys stay as they are."""
    return {names.get(key.lower(), key): value for key, value in mapping.items()}
