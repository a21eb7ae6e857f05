# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bodies with known names are decoded as those with any names."""

from __future__ import annotations

import json

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import encode_json
from ansible_collections.onprem.kube_scheduling.services.extender.http.messages.ordinary_args import KnownNames, OrdinaryArgs, ordinary_args
from ansible_collections.onprem.kube_scheduling.services.extender.http.messages.wire import read_nodes_request
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.extender_objects import names_body, pod

NAMES = st.text(max_size=6)


def learned(*names: str) -> KnownNames:
    found = KnownNames()
    found.learn(names)
    return found


@settings(max_examples=50)
@given(known=st.lists(NAMES, max_size=5), others=st.lists(NAMES, max_size=2), is_escaped=st.booleans())
def test_the_names_are_those_of_the_body(known: list[str], others: list[str], is_escaped: bool) -> None:
    names = [*known, *others, *known]
    body = json.dumps({"Pod": pod(), "NodeNames": names}, ensure_ascii=is_escaped).encode()
    reader = learned(*known)
    for _ in range(2):
        found = reader.args(body)
        assert found is not None and found.node_names == names
        assert encode_json(found) == encode_json(ordinary_args(body))


def test_a_known_name_is_not_made_again() -> None:
    known = "worker" + str(1)
    found = learned(known, "b").args(names_body(["b", "worker1"]))
    assert found is not None and found.node_names is not None and found.node_names[1] is known


def test_other_names_are_decoded_in_the_plain_way_until_there_are_other_nodes() -> None:
    known = "worker" + str(1)
    reader = learned(known)

    def is_known() -> bool:
        found = reader.args(names_body(["worker1"]))
        assert isinstance(found, OrdinaryArgs) and found.node_names == ["worker1"]
        return found.node_names[0] is known

    assert is_known()
    assert read_nodes_request(names_body(["new"]), ordinary=reader.args).names == ["new"]
    assert not is_known()
    reader.learn((known,))
    assert not is_known()
    reader.learn((known, "new"))
    assert is_known()
    assert reader.args(b"{") is None and reader.args(b'{"Pod": 1}') is None
    assert is_known(), "a body that nobody can decode says nothing about the names"


def test_names_that_cannot_be_in_json_are_not_known() -> None:
    for names in ((), ("\ud800",)):
        found = learned(*names).args(names_body(["a"]))
        assert found is not None and found.node_names == ["a"]
