# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A value is computed once for the same key or objects, and never returned for others. A cache keeps what was used last."""

from __future__ import annotations

import gc
from functools import partial

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.caches import BoundedCache, IdentityCache, IdentityDict


def test_values_that_were_used_last_are_kept_and_others_are_made_again() -> None:
    made: list[str] = []
    recent: BoundedCache[str, str] = BoundedCache(2)

    def ask(key: str) -> str:
        return recent.get(key, lambda: made.append(key) or key.upper())  # type: ignore[func-returns-value]

    assert [ask(key) for key in ("a", "b", "a", "c", "a", "b")] == ["A", "B", "A", "C", "A", "B"]
    assert made == ["a", "b", "c", "b"]


def test_value_is_computed_once_for_the_same_objects_and_key() -> None:
    cache: IdentityCache[int] = IdentityCache(4)
    names, other, calls = ["a"], ["b"], []

    def make() -> int:
        calls.append(1)
        return len(calls)

    assert [cache.get((names, other), make), cache.get((names, other), make)] == [1, 1]
    assert cache.get((other, names), make) == 2
    assert cache.get((names, other), make, key="zone") == 3
    assert cache.get((names,), make) == 4


def test_value_may_be_none() -> None:
    cache: IdentityCache[None] = IdentityCache(4)
    names, calls = ["a"], []
    for _again in range(2):
        assert cache.get((names,), lambda: calls.append(1)) is None
    assert len(calls) == 1


def test_equal_objects_that_are_not_the_same_have_values_of_their_own() -> None:
    cache: IdentityCache[str] = IdentityCache(4)
    one, two = ["a"], ["a"]
    assert (cache.get((one,), lambda: "one"), cache.get((two,), lambda: "two")) == ("one", "two")


def test_new_object_at_the_address_of_a_freed_one_does_not_get_its_value() -> None:
    """The interpreter gives the memory of a freed object to the next one of the same size."""
    cache: IdentityCache[int] = IdentityCache(1000)
    for number in range(500):
        assert cache.get(([number],), partial(int, number)) == number
        gc.collect(0)


def test_values_that_were_used_last_are_kept() -> None:
    cache: IdentityCache[int] = IdentityCache(2)
    a, b, c = ["a"], ["b"], ["c"]
    for number, one in enumerate((a, b, a, c)):
        cache.get((one,), partial(int, number))
    assert cache.get((a,), lambda: 9) == 0
    assert cache.get((b,), lambda: 9) == 9


def test_value_that_is_kept_by_identity_is_found_and_holds_its_object() -> None:
    known: IdentityDict[str] = IdentityDict()
    found = []
    for number in range(50):
        one = [number]  # each list would get the address of the one before it if that one were freed
        assert known.get(id(one)) is None
        assert known.keep(id(one), one, str(number)) == str(number)
        found.append(id(one))
    assert [known[key][1] for key in found] == [str(number) for number in range(50)]
