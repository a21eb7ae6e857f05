# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A reflector reads again after its server restarts. The responses are faked: a real server gives none of them at a chosen moment."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Iterator

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache import reflector as module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache.reflector import Reflector
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache.store import Store
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import ListResult
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ForbiddenError, UnreachableError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import PODS

TIMEOUT_S = 20


class Api:
    """An API that raises the errors of each verb, one in each request. Later requests succeed. A watch lasts until ``broken`` is set."""

    def __init__(self, **errors: list[Exception]) -> None:
        self.errors = errors
        self.asked: list[str] = []
        self.broken = threading.Event()

    def with_timeouts(self, **_bounds: t.Any) -> Api:
        return self

    def list_for_watch(self, _resource: t.Any, **_how: t.Any) -> ListResult:
        self._answer("list")
        return ListResult([], "7")

    def watch_all(self, _resource: t.Any, *, on_open: t.Callable[[t.Any], None], **_how: t.Any) -> Iterator[t.Any]:
        self._answer("watch")
        on_open(self.broken.set)
        self.broken.wait(TIMEOUT_S)
        self.broken.clear()
        yield from ()
        raise UnreachableError("broken off")

    def _answer(self, verb: str) -> None:
        self.asked.append(verb)
        errors = self.errors.get(verb)
        if errors:
            raise errors.pop(0)


class Following:
    """A reflector of pods, and the states that it has published."""

    def __init__(self, api: Api) -> None:
        self.refusals: list[t.Any] = []
        self._lock = threading.Lock()
        self.follower = Reflector(t.cast(t.Any, api), Store(PODS), self._publish, required=True, may_be_absent=False)
        self.follower.start()

    def _publish(self, change: t.Callable[[], bool]) -> None:
        with self._lock:
            change()
            if hasattr(self, "follower"):
                self.refusals.append(self.follower.refused)

    def wait(self, condition: t.Callable[[], bool]) -> None:
        end_s = time.monotonic() + TIMEOUT_S
        while not condition():
            assert time.monotonic() < end_s
            time.sleep(0.01)

    def close(self, api: Api) -> None:
        self.follower.stop()
        api.broken.set()
        self.follower.join(TIMEOUT_S)


def denial(*, early: bool) -> ForbiddenError:
    error = ForbiddenError('pods is forbidden: User "u" cannot list resource "pods"', status=403)
    error.early = early
    return error


def test_a_denial_of_a_server_that_has_just_started_refuses_nothing() -> None:
    api = Api(list=[denial(early=True)], watch=[denial(early=True)])
    following = Following(api)
    following.wait(lambda: following.follower.complete and following.follower.error is None and api.asked.count("watch") == 2)
    following.close(api)
    assert api.asked[:3] == ["list", "list", "watch"] and set(following.refusals) == {None}


def test_a_denial_that_is_final_refuses() -> None:
    api = Api(list=[denial(early=False)] * 2)
    following = Following(api)
    following.wait(lambda: len(following.refusals) > 0)
    following.close(api)
    assert isinstance(following.refusals[0], ForbiddenError)


@pytest.mark.parametrize(("recent_s", "asked"), [(60.0, ["list", "watch", "watch"]), (0.0, ["list", "watch", "list", "watch"])])
def test_after_a_time_without_a_connection_the_state_is_listed_again(
    monkeypatch: pytest.MonkeyPatch, recent_s: float, asked: list[str]
) -> None:
    """A watch from the old version would show what has ended meanwhile as if it were still there."""
    monkeypatch.setattr(module, "RECENT_S", recent_s)
    api = Api()
    following = Following(api)
    following.wait(lambda: api.asked == ["list", "watch"])
    api.broken.set()
    following.wait(lambda: len(api.asked) >= len(asked))
    following.close(api)
    assert api.asked == asked
