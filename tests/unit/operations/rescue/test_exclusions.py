# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nodes and victims are excluded until a time, and a node without effect is never tried again."""

from __future__ import annotations

import math

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.exclusions import Exclusions

LOST = Reason("hold_lost", "the taint was removed")


def test_an_exclusion_ends_at_its_time() -> None:
    found = Exclusions().with_node("a", 10.0, LOST).with_victim("uid", 20.0)
    assert (set(found.at(9.9).nodes), set(found.at(10.0).nodes)) == ({"a"}, set())
    assert (set(found.at(19.9).victims), set(found.at(20.0).victims)) == ({"uid"}, set())


def test_a_node_that_was_cleared_without_effect_is_excluded_for_ever() -> None:
    found = Exclusions().with_failed_nodes(["a"])
    assert found.at(1e12).nodes == {"a": math.inf} and not found.may_change_soon
    assert found.with_victim("uid", 20.0).may_change_soon
    assert not found.with_victim("uid", 20.0).at(20.0).may_change_soon


def test_the_text_names_the_last_node_only_while_it_is_excluded() -> None:
    found = Exclusions().with_node("a", 10.0, LOST).with_node("b", 5.0, LOST)
    assert found.at(1.0).given_up_text == "; node b was given up: the taint was removed"
    assert found.at(7.0).given_up_text == "" and Exclusions().given_up_text == ""
