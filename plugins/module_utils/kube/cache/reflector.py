# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A reflector: a thread that keeps one store up to date by a list and then watches from its resource version."""

from __future__ import annotations

import random
import threading
import time
import typing as t
from collections.abc import Iterable

from ...model.api.meta import ObjectMeta
from ...model.backoff import Backoff
from ...model.codec import DecodeError, resource_version_of
from ...model.snapshot import Skipped
from ...model.undecodable import undecodable_of
from ..client.api import KubeApi
from ..client.errors import (
    ApiError,
    ConfigurationError,
    ExpiredError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    ResponseDecodeError,
    TLSError,
    UnauthorizedError,
    UnreachableError,
)
from .store import BOOKMARK, Store

WATCH_S = (240.0, 480.0)
"""Bounds of the duration of a watch in seconds.

Watches are renewed, so that an API server that is available again gets its share of them.
"""
SILENCE_S = 70.0
"""Seconds without data after which a watch is opened again: the connection may be dead, or nothing has changed.

A server sends a bookmark about once a minute. It sends none while its cache knows no newer version than the one from which the watch began
(kubernetes ``storage/cacher/cache_watcher.go``). The cache receives newer versions by events of the resource and by progress notices of
etcd. By default etcd sends a notice every ten minutes.
"""
AT_MOST_EVERY_S = 1.0
BACKOFF = Backoff(1.0, 5.0, jitter=0.5)
FORBIDDEN_PAUSE_S = 60.0
"""Seconds until a resource that is forbidden, or unknown to the server, is read again."""
POLL_S = 10.0
"""Seconds between lists of a resource that may be listed but not watched."""
LIST_RETRY_S = 5.0
ANSWER_TIMEOUT_S = 30.0

JOIN_S = 2.0
"""Seconds for the end of all threads of a cache."""

SILENT_AFTER_S = 85.0
"""Seconds without data from the server after which the state may be old.

A quiet watch is opened again earlier, after SILENCE_S. If the limit is exceeded, the server has not answered that either.
"""

RECENT_S = 2.0
"""Seconds. After an error a watch continues from its last version only if the last contact was within this time."""

PERMANENT_ERRORS = (UnauthorizedError, TLSError, ConfigurationError)
"""Errors that do not end while a program starts."""

Publish = t.Callable[[t.Callable[[], bool]], None]
"""Runs a change under the cache's lock. The change returns whether it has changed what a reader sees."""


class Reflector:
    """Keeps the store of one resource up to date.

    ``complete``: a complete list was read, or the resource cannot be read. If it cannot be read, ``skipped`` is the reason, or None if the
    server does not have the resource. ``error``: the error since the last contact, which was at ``contact_at_s`` (monotonic).
    ``ended``: the exception that ended the thread, an error in this program.
    These attributes are read under the cache's lock.
    """

    def __init__(self, api: KubeApi, store: Store, publish: Publish, *, required: bool, may_be_absent: bool) -> None:
        self.store = store
        self._required = required
        self._may_be_absent = may_be_absent
        self.complete = False
        self.contact_at_s = time.monotonic()
        self.skipped: t.Optional[Skipped] = None
        self.error: t.Optional[KubeError] = None
        self.ended: t.Optional[Exception] = None
        self._api = api.with_timeouts(retry_for_s=LIST_RETRY_S, answer_timeout_s=ANSWER_TIMEOUT_S)
        self._publish = publish
        self._stopping = threading.Event()
        self._end_watch: t.Optional[t.Callable[[], None]] = None
        self._version = ""
        self._failures = 0
        self._thread = threading.Thread(target=self._run, name=f"follow {store.resource.plural}", daemon=True)

    @property
    def fatal(self) -> t.Optional[Exception]:
        """Return the error that prevents a start and that needs a change by a person. None if there is none."""
        if self.ended is not None or isinstance(self.error, PERMANENT_ERRORS):
            return self.ended or self.error
        return self.refused

    @property
    def refused(self) -> t.Optional[KubeError]:
        """Return the error if a required resource may not be read, otherwise None.

        Denials by a server that has just started do not count.
        """
        refused = self._required and isinstance(self.error, ForbiddenError) and not self.error.early
        return self.error if refused else None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Signal the thread to end, and end its current watch."""
        self._stopping.set()
        end_watch = self._end_watch
        if end_watch is not None:
            end_watch()

    def join(self, timeout_s: float) -> None:
        """Wait for the thread to end."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._stopping.wait(self._list_and_watch())
        except Exception as error:
            died = error
            self._publish(lambda: self._fail(died))

    def _list_and_watch(self) -> float:
        """Make a list if one is needed, and one watch. Return the seconds to wait before the next call."""
        due_s = time.monotonic() + AT_MOST_EVERY_S
        if self._failures and time.monotonic() - self.contact_at_s > RECENT_S:
            # A watch would show each change of the time without a connection separately, with old states in between.
            self._version = ""
        try:
            if not self._version:
                self._list()
            self._watch()
        except ExpiredError:
            self._version = ""
        except NotFoundError as error:
            return self._give_up(None) if self._may_be_absent else self._failed(error)
        except ForbiddenError as error:
            if error.early:
                return self._failed(error)
            if self._version:  # the resource may be listed, but not watched
                self._version = ""
                return POLL_S
            return self._failed(error) if self._required else self._give_up(error)
        except KubeError as error:
            if isinstance(error, ResponseDecodeError):
                self._version = ""  # the next watch from this version would return the same
            if not self._stopping.is_set():
                return self._failed(error)
        return max(0.0, due_s - time.monotonic())

    def _list(self) -> None:
        self.store.note_list_start()
        store = self.store
        listed = self._api.list_for_watch(store.resource, field_selector=store.field_selector, decode_page=store.decode_page)

        def take_over() -> bool:
            changed = store.replace(listed.items) or not self.complete or self.skipped is not None
            self.complete, self.skipped = True, None
            self._contact()
            return changed

        self._publish(take_over)
        self._version = listed.resource_version

    def _watch(self) -> None:
        events = self._api.watch_all(
            self.store.resource,
            field_selector=self.store.field_selector,
            resource_version=self._version,
            timeout_s=POLL_S if self._has_nameless else random.uniform(*WATCH_S),
            silence_s=SILENCE_S,
            on_open=self._opened,
        )
        try:
            for event in events:
                data = bytes(event.object)
                if event.type == BOOKMARK:
                    self._version = _version_of_bookmark(data)
                    self._publish(self._contact)
                else:
                    self._apply_event(event.type, self.store.decode_event(data))
                if not self._version:
                    return  # the object is not known: a new list shows its state
            if self._has_nameless:
                self._version = ""
        except UnreachableError:
            if not self._was_quiet:
                raise
        finally:
            self._end_watch = None

    @property
    def _was_quiet(self) -> bool:
        """Return whether the watch was open and nothing came for ``SILENCE_S``.

        The next watch continues and shows whether the server is available.
        """
        return self._end_watch is not None and time.monotonic() - self.contact_at_s >= SILENCE_S

    @property
    def _has_nameless(self) -> bool:
        """Return whether the store has an object whose uid cannot be read.

        No event can be matched with such an object. Lists show its state, every ``POLL_S`` seconds.
        """
        return any(not one.identified for one in self.store.undecodable)

    def _apply_event(self, change: str, item: t.Any) -> None:
        metadata: ObjectMeta = item.metadata
        undecodable = undecodable_of(item)
        version = metadata.resource_version if undecodable is None or undecodable.identified else ""
        self._publish(lambda: self.store.apply(change, item) | self._contact())
        self._version = version

    def _opened(self, end_watch: t.Callable[[], None]) -> None:
        self._end_watch = end_watch
        if self._stopping.is_set():
            end_watch()
        self._publish(self._contact)

    def _contact(self) -> bool:
        """Note that the server has sent something. Return whether this ends an error."""
        recovered = self.error is not None
        self.error = None
        self.contact_at_s = time.monotonic()
        self._failures = 0
        return recovered

    def _failed(self, error: KubeError) -> float:
        self._failures += 1
        self._publish(lambda: self._note(error))
        asked_s = error.retry_after_s if isinstance(error, ApiError) else None
        return max(BACKOFF.pause_s(self._failures), asked_s or 0.0)

    def _give_up(self, error: t.Optional[ForbiddenError]) -> float:
        """Show a resource that may not be read, or does not exist, as empty. Return the seconds until it is read again.

        It is read again, because the permission may be granted or the resource added later.
        """
        self._version = ""

        def empty() -> bool:
            plural = self.store.resource.plural
            skipped = Skipped(plural, "", str(error)) if error is not None else None
            changed = self.store.replace([]) or not self.complete or self.skipped != skipped
            self.complete, self.skipped = True, skipped
            self._contact()
            return changed

        self._publish(empty)
        return FORBIDDEN_PAUSE_S

    def _note(self, error: KubeError) -> bool:
        self.error = error
        return True

    def _fail(self, error: Exception) -> bool:
        self.ended = error
        return True


def _version_of_bookmark(data: bytes) -> str:
    """Return the resource version of a bookmark. It is empty if it cannot be read."""
    try:
        return resource_version_of(data)
    except DecodeError:
        return ""


def stop_all(reflectors: Iterable[Reflector]) -> None:
    """End the watches and the threads. The stores can still be read."""
    stopped = list(reflectors)
    for reflector in stopped:
        reflector.stop()
    deadline_s = time.monotonic() + JOIN_S
    for reflector in stopped:
        reflector.join(max(0.0, deadline_s - time.monotonic()))
