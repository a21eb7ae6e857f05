# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules that the decoder of requests keeps for every body. The fuzzer calls ``check_body`` with millions of bodies."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Callable, Iterator

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import Raw, decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.services.extender.http.wire import (
    BadRequestError,
    filter_answer,
    preemption_answer,
    read_nodes_request,
    read_preemption_request,
)

Json = dict[str, t.Any]
META = "NodeNameToMetaVictims"


def check_body(body: bytes) -> set[str]:
    """Return the names of the comparisons that were possible.

    Raises AssertionError for a broken rule. The decoder must raise no error except BadRequestError; any other is not caught.
    """
    return {*_check_nodes(body), *_check_preemption(body)}


def _check_nodes(body: bytes) -> Iterator[str]:
    found = _nodes(body)
    if found is None:
        yield "nodes refused"
        return
    names, nodes, _pod = found
    yield "nodes by name" if nodes is None else "whole nodes"
    _check_filter_answer(names, nodes)
    yield from _compare("nodes", body, found, _plain_names)


def _check_preemption(body: bytes) -> Iterator[str]:
    found = _preemption(body)
    if found is None:
        yield "victims refused"
        return
    yield "victims"
    yield from _compare("victims", body, found, _plain_candidates)


def _compare(part: str, body: bytes, found: tuple[t.Any, ...], read_plain: Callable[[Json], t.Any]) -> Iterator[str]:
    """Compare what was found with the answer of the standard library."""
    plain = _plain(body)
    if plain is None:
        return
    expected = read_plain(plain)
    assert found[0] == expected, (found[0], expected, plain)
    yield f"{part} as the standard library reads them"


# --- what the decoders answer -------------------------------------------------------------------------------------------


def _nodes(body: bytes) -> tuple[list[str], list[bytes] | None, t.Any] | None:
    """Return the names, the whole nodes and the pod; None for a body that is refused."""
    try:
        request = read_nodes_request(body)
    except BadRequestError as error:
        _check_refusal(error)
        return None
    return request.names, None if request.nodes is None else [bytes(node) for node in request.nodes], _pod(request.pod)


def _preemption(body: bytes) -> tuple[dict[str, tuple[list[str], int]], t.Any] | None:
    """Return the victims by node and the pod; None for a body that is refused."""
    try:
        request = read_preemption_request(body)
    except BadRequestError as error:
        _check_refusal(error)
        return None
    answer = json.loads(preemption_answer(request.candidates, list(request.candidates)))["NodeNameToMetaVictims"]
    found = {name: (list(one.pod_uids), one.budget_violations) for name, one in request.candidates.items()}
    assert {name: ([pod["UID"] for pod in one["Pods"]], one["NumPDBViolations"]) for name, one in answer.items()} == found
    return found, _pod(request.pod)


def _pod(pod: t.Any) -> t.Any:
    """Return all that is read of a pod. The API of the scheduler answers a ValueError with 400."""
    try:
        return pod.key, pod.scheduler_name, pod.data, pod.view
    except ValueError as error:
        assert str(error)
        return pod.key, pod.scheduler_name, pod.data, None


def _check_refusal(error: BadRequestError) -> None:
    assert error.status in (400, 413) and str(error), error
    encode_json({"error": str(error)})


def _check_filter_answer(names: list[str], nodes: list[bytes] | None) -> None:
    answer = filter_answer(names, None if nodes is None else [Raw(node) for node in nodes], {})
    decode_json(dict[str, Raw], answer)
    if nodes is None:
        assert json.loads(answer)["NodeNames"] == names


# --- what a second decoder reads ----------------------------------------------------------------------------------------


def _plain(body: bytes) -> Json | None:
    """Return the body as the standard library reads it. None if a part that is not used is no JSON."""
    try:
        plain = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return plain if isinstance(plain, dict) else None


def _plain_names(plain: Json) -> list[str]:
    if plain.get("NodeNames") is not None:
        return list(plain["NodeNames"])
    return [node["metadata"]["name"] for node in plain["Nodes"].get("items") or ()]


def _plain_candidates(plain: Json) -> dict[str, tuple[list[str], int]]:
    if plain.get(META):
        return {name: _plain_victims(victims, lambda pod: pod["UID"]) for name, victims in plain[META].items()}
    whole = plain.get("NodeNameToVictims") or {}
    return {name: _plain_victims(victims, lambda pod: pod["metadata"].get("uid", "")) for name, victims in whole.items()}


def _plain_victims(victims: Json | None, uid: Callable[[Json], str]) -> tuple[list[str], int]:
    if victims is None:
        return [], 0
    return [uid(pod) for pod in victims["Pods"] or ()], victims["NumPDBViolations"]
