# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Collections exclude the objects of a refresh, and cycles among them are released by the regular full collection."""

from __future__ import annotations

import gc
import weakref

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.sources import refresher

from tests.unit.services.extender.sources.source_listener import Listener, Make


class Cycle:
    def __init__(self) -> None:
        self.own = self


def test_a_refresh_runs_without_collections_and_its_objects_are_excluded(make: Make, listener: Listener) -> None:
    frozen, enabled = gc.get_freeze_count(), list[bool]()
    listener.on_view = lambda _view: enabled.append(gc.isenabled())  # type: ignore[method-assign]
    make(prometheus=False).refresh_once()
    assert enabled == [False] and gc.isenabled() and gc.get_freeze_count() > frozen


def test_the_collector_is_enabled_after_an_error(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresher, "unanswered_queries", None)
    with pytest.raises(TypeError):
        make(prometheus=False).refresh_once()
    assert gc.isenabled()


def test_a_cycle_is_released_by_a_later_full_collection(make: Make, listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresher, "COLLECTED_EVERY", 2)
    released: list[bool] = []
    sources = make(prometheus=False)
    listener.on_view = lambda _view: weakref.finalize(Cycle(), released.append, True)  # type: ignore[method-assign]
    sources.refresh_once()
    gc.collect()
    assert not released
    listener.on_view = lambda _view: None  # type: ignore[method-assign]
    sources.refresh_once()
    assert released
