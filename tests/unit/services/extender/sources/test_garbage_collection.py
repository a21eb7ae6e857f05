# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Collections exclude the objects of a refresh, and cycles among them are released by the regular full collection."""

from __future__ import annotations

import gc
import weakref

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.sources import garbage_collection
from ansible_collections.onprem.kube_scheduling.services.extender.sources.garbage_collection import LongLivedObjects


class Cycle:
    def __init__(self) -> None:
        self.own = self


def test_a_refresh_runs_without_collections_and_its_objects_are_excluded() -> None:
    frozen = gc.get_freeze_count()
    with LongLivedObjects().refreshing():
        assert not gc.isenabled()
    assert gc.isenabled() and gc.get_freeze_count() > frozen


def test_the_collector_is_enabled_after_an_error() -> None:
    with pytest.raises(RuntimeError), LongLivedObjects().refreshing():
        raise RuntimeError
    assert gc.isenabled()


def test_a_cycle_is_released_by_a_later_full_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage_collection, "FULL_EVERY", 2)
    released: list[bool] = []
    objects = LongLivedObjects()
    with objects.refreshing():
        weakref.finalize(Cycle(), released.append, True)
    gc.collect()
    assert not released
    with objects.refreshing():
        pass
    assert released
