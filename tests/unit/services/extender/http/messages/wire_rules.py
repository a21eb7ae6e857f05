# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules that the decoder of requests keeps for every body. The fuzzer calls ``check_body`` with millions of bodies."""

from __future__ import annotations

import json
import typing as t
from collections.abc import Callable, Iterator

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import Raw, decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.services.extender.http.messages.preemption_wire import (
    preemption_answer,
    read_preemption_request,
)
from ansible_collections.onprem.kube_scheduling.services.extender.http.messages.request_parts import BadRequestError
from ansible_collections.onprem.kube_scheduling.services.extender.http.messages.wire import filter_answer, read_nodes_request

Json = dict[str, t.Any]
Rename = Callable[[str], str]

OTHER_CASES: tuple[Rename, ...] = (str.lower, str.upper, lambda key: key[:1].lower() + key[1:])
"""Go reads keys in any of these cases. Only Go's own case is read by the fast decoder."""

META = "NodeNameToMetaVictims"
VICTIMS = {"NodeNameToVictims", META}
KEYS = {key.lower(): key for key in ("Pod", "Nodes", "NodeNames", "NodeNameToVictims", META, "Pods", "NumPDBViolations", "UID")}


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
    yield from _compare("nodes", body, found, _nodes, _plain_names)


def _check_preemption(body: bytes) -> Iterator[str]:
    found = _preemption(body)
    if found is None:
        yield "victims refused"
        return
    yield "victims"
    yield from _compare("victims", body, found, _preemption, _plain_candidates)


def _compare(
    part: str, body: bytes, found: tuple[t.Any, ...], read: Callable[[bytes], t.Any], read_plain: Callable[[Json], t.Any]
) -> Iterator[str]:
    """Compare what was found with the answer of the standard library, and with that for keys in another case."""
    plain = _plain(body)
    if plain is None:
        return
    expected = read_plain(plain)
    assert found[0] == expected, (found[0], expected, plain)
    yield f"{part} as the standard library reads them"
    changed = _in_another_case(body, plain)
    again = read(changed)
    assert again == found, (again, found, changed)
    yield f"{part} with keys in another case"


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
    """Return the body as the standard library reads it. None if a part that is not used is no JSON, or keys are in a mixture of cases.

    If a key is there in two cases, the fast decoder reads the one in Go's own case, and the slow decoder the last. If there are both of two
    keys that mean the same, and only one is in Go's own case, then only this one is read.
    """
    try:
        plain = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(plain, dict) or any(_is_mixed(plain, pair) for pair in ({"Nodes", "NodeNames"}, VICTIMS)):
        return None
    exact = _exact(plain)
    return exact if exact is not None and all(_exact(victims) is not None for victims in _victims(exact)) else None


def _is_mixed(plain: Json, pair: set[str]) -> bool:
    written = {key for key in plain if KEYS.get(key.lower()) in pair}
    return len(written) == len(pair) and len(written & pair) == 1


def _exact(plain: Json) -> Json | None:
    """Return an object with the keys of the messages as Go writes them; None if a key is there in two cases."""
    exact = {KEYS.get(key.lower(), key): value for key, value in plain.items()}
    return exact if len(exact) == len(plain) else None


def _victims(exact: Json) -> Iterator[Json]:
    for key in VICTIMS:
        by_node = exact.get(key)
        for victims in by_node.values() if isinstance(by_node, dict) else ():
            if isinstance(victims, dict):
                yield victims
                pods = _exact_or_empty(victims).get("Pods")
                yield from (pod for pod in pods if isinstance(pod, dict)) if isinstance(pods, list) else ()


def _exact_or_empty(plain: Json) -> Json:
    return _exact(plain) or {}


def _plain_names(plain: Json) -> list[str]:
    if plain.get("NodeNames") is not None:
        return list(plain["NodeNames"])
    return [node["metadata"]["name"] for node in plain["Nodes"].get("items") or ()]


def _plain_candidates(plain: Json) -> dict[str, tuple[list[str], int]]:
    if plain.get(META):
        return {name: _plain_victims(victims, lambda pod: _exact_or_empty(pod)["UID"]) for name, victims in plain[META].items()}
    whole = plain.get("NodeNameToVictims") or {}
    return {name: _plain_victims(victims, lambda pod: pod["metadata"].get("uid", "")) for name, victims in whole.items()}


def _plain_victims(victims: Json | None, uid: Callable[[Json], str]) -> tuple[list[str], int]:
    if victims is None:
        return [], 0
    exact = _exact_or_empty(victims)
    return [uid(pod) for pod in exact["Pods"] or ()], exact["NumPDBViolations"]


# --- the same body with keys in another case ----------------------------------------------------------------------------


def _in_another_case(body: bytes, plain: Json) -> bytes:
    """Return the same message with its keys in one of the other cases, which depends on the body."""
    rename = OTHER_CASES[len(body) % len(OTHER_CASES)]
    parts = {KEYS.get(key.lower(), key): part for key, part in decode_json(dict[str, Raw], body).items()}
    for key in VICTIMS & parts.keys():
        if isinstance(plain[key], dict):
            by_node = {name: _renamed_victims(victims, rename, is_whole=key != META) for name, victims in plain[key].items()}
            parts[key] = Raw(encode_json(by_node))
    return encode_json({rename(key): part for key, part in parts.items()})


def _renamed_victims(victims: t.Any, rename: Rename, *, is_whole: bool) -> t.Any:
    """Return the victims on a node with the keys of the messages in another case. Whole pods keep theirs."""
    found = _renamed(victims, rename)
    pods = found.get(rename("Pods")) if isinstance(found, dict) else None
    if isinstance(pods, list) and not is_whole:
        found[rename("Pods")] = [_renamed(pod, rename) for pod in pods]
    return found


def _renamed(value: t.Any, rename: Rename) -> t.Any:
    if not isinstance(value, dict):
        return value
    return {(rename(key) if key.lower() in KEYS else key): part for key, part in value.items()}
