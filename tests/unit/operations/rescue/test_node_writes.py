# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Writes of a hold to its node, while other clients write to the node or an answer is lost."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ConflictError, PatchTestError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.holds import (
    NodeChangesError,
    NodeTakenError,
    place_hold,
    release_hold,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import holds_in

from tests.unit.state.test_hold import NOW, OTHER, Json, applied, document, hold

MAX_TRIES = 5


class NodeApi:
    """One node. ``before``: called with the number of each patch; it may change the node, and an error that it returns is the answer."""

    def __init__(self, document: Json, before: t.Callable[[NodeApi, int], ConflictError | None] = lambda _api, _number: None) -> None:
        self.document, self._before = document, before
        self.patches = 0

    def get_plain(self, _resource: t.Any, _namespace: str, _name: str) -> Json:
        return self.document

    def json_patch(self, _resource: t.Any, _namespace: str, _name: str, operations: list[Json], *, dry_run: bool = False) -> None:
        self.patches += 1
        error = self._before(self, self.patches)
        if error is not None and not error.repeated:
            raise error
        self.document = applied(self.document, operations)
        if error is not None:
            raise error


def lost_answer(_api: NodeApi, _number: int) -> ConflictError:
    """The first patch was applied, its answer was lost, and the test of its repetition has failed."""
    error = PatchTestError("it is not as it was read", status=422)
    error.repeated = True
    return error


def test_hold_and_release_are_written_once() -> None:
    api: t.Any = NodeApi(document([OTHER], {}))
    place_hold(api, "n", hold(), "")
    place_hold(api, "n", hold(), "")
    assert api.patches == 1 and holds_in(api.document) == [hold()]
    assert release_hold(api, "n", hold()) and not release_hold(api, "n", hold())
    assert api.patches == 2 and api.document == document([OTHER], {})


@pytest.mark.parametrize("error", [PatchTestError, ConflictError])
def test_hold_is_written_after_other_clients_have_written_to_the_node(error: type[ConflictError]) -> None:
    def write(api: NodeApi, number: int) -> ConflictError | None:
        if number == MAX_TRIES:
            return None
        api.document = document([OTHER, {"key": f"k{number}", "effect": "NoSchedule"}], {})
        return error("it is not as it was read", status=422)

    api: t.Any = NodeApi(document([OTHER], {}), write)
    place_hold(api, "n", hold(), "")
    assert api.patches == MAX_TRIES and holds_in(api.document) == [hold()]
    assert api.document["spec"]["taints"][1]["key"] == "k4", "the taint of the other client is kept"


def test_error_names_the_node_if_it_changes_before_each_try() -> None:
    api: t.Any = NodeApi(document([OTHER], {}), lambda _api, _number: PatchTestError("it is not as it was read", status=422))
    with pytest.raises(NodeChangesError, match=r"hold of node n .* changed 5 times"):
        place_hold(api, "n", hold(), "")
    assert api.patches == MAX_TRIES and api.document == document([OTHER], {})


def test_release_whose_answer_was_lost_counts_as_done_by_this_program() -> None:
    api: t.Any = NodeApi(document([OTHER], {}))
    place_hold(api, "n", hold(), "")
    losing: t.Any = NodeApi(api.document, lost_answer)
    assert release_hold(losing, "n", hold())
    assert losing.patches == 1 and losing.document == document([OTHER], {})


def test_release_by_another_program_in_the_meantime_is_not_counted() -> None:
    def release(api: NodeApi, _number: int) -> ConflictError | None:
        api.document = document([OTHER], {})
        return PatchTestError("it is not as it was read", status=422)

    placed: t.Any = NodeApi(document([OTHER], {}))
    place_hold(placed, "n", hold(), "")
    api: t.Any = NodeApi(placed.document, release)
    assert not release_hold(api, "n", hold()) and api.patches == 1


def test_another_pod_s_hold_is_not_replaced_and_an_older_one_of_the_pod_is() -> None:
    api: t.Any = NodeApi(document([OTHER], {}))
    place_hold(api, "n", hold(), "")
    with pytest.raises(NodeTakenError, match="node n is held for another pod, until "):
        place_hold(api, "n", hold("u-2"), "")
    place_hold(api, "n", hold(deadline_s=NOW + 90), "")
    assert holds_in(api.document) == [hold(deadline_s=NOW + 90)] and len(api.document["spec"]["taints"]) == 2
