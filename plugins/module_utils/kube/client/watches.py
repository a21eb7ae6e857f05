# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The watches of the API client."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

from ...model.codec import DecodeError, Struct, WatchEvent, decode_object, decode_watch_event
from .early_denials import EarlyDenials
from .errors import KubeError, RequestTarget, ResponseDecodeError, api_error
from .http.transport import OnOpen, QueryParameters, Transport
from .resources import Resource

ERROR_EVENT = "ERROR"
"""The type of the event with which a server ends a watch because of an error."""


class _WatchStatus(Struct, frozen=True):
    """The status with which the server has ended a watch."""

    code: int = 0
    message: str = ""
    reason: str = ""


class Watches:
    """The watches of an API server. They are not repeated: the caller decides how to continue after an error."""

    def __init__(self, transport: Transport, denials: EarlyDenials, clock: t.Callable[[], float]) -> None:
        self._transport = transport
        self._denials = denials
        self._clock = clock

    def watch(self, resource: Resource, namespace: str, name: str, *, resource_version: str, timeout_s: float) -> Iterator[WatchEvent]:
        """Yield the changes of one object since ``resource_version``, until the server or ``timeout_s`` ends the watch.

        Raises ForbiddenError if watching is not allowed, ExpiredError if the version is too old.
        """
        query = [("fieldSelector", f"metadata.name={name}"), ("resourceVersion", resource_version)]
        return self._watch(resource, namespace, query, target=resource.target(namespace, name), timeout_s=timeout_s)

    def watch_selected(self, resource: Resource, namespace: str, *, label_selector: str, timeout_s: float) -> Iterator[WatchEvent]:
        """Yield the existing selected objects as ADDED and then their changes, until the server or ``timeout_s`` ends the watch.

        Raises ForbiddenError if watching is not allowed.
        """
        return self._watch(
            resource, namespace, [("labelSelector", label_selector)], target=resource.collection_target(namespace), timeout_s=timeout_s
        )

    def watch_all(
        self, resource: Resource, *, field_selector: str = "", resource_version: str, timeout_s: float, silence_s: float, on_open: OnOpen
    ) -> Iterator[WatchEvent]:
        """Yield the changes of the selected objects of the whole cluster since ``resource_version``, with bookmarks.

        The server ends the watch after ``timeout_s``. An object that begins to match the selector is ADDED, and one that matches no longer
        is DELETED.

        ``silence_s``: the longest time without data from the server, which sends bookmarks about once a minute. ``on_open`` gets a function
        with which another thread can end the watch. Raises ExpiredError if the version is too old, NotFoundError if the resource does not
        exist, ForbiddenError, UnreachableError, ApiError.
        """
        target = resource.collection_target()
        query = [("allowWatchBookmarks", "true"), ("resourceVersion", resource_version)]
        if field_selector:
            query.append(("fieldSelector", field_selector))
        events = self._watch(resource, "", query, target=target, timeout_s=timeout_s, silence_s=silence_s, on_open=on_open)
        for event in events:
            if event.type == ERROR_EVENT:
                raise _end_of_watch(target, bytes(event.object))
            yield event

    def _watch(
        self,
        resource: Resource,
        namespace: str,
        query: QueryParameters,
        *,
        target: RequestTarget,
        timeout_s: float,
        silence_s: t.Optional[float] = None,
        on_open: t.Optional[OnOpen] = None,
    ) -> Iterator[WatchEvent]:
        lines = self._transport.lines(
            resource.path(namespace),
            verb="watch",
            target=target,
            query=[("watch", "true"), *query, ("timeoutSeconds", str(max(1, int(timeout_s))))],
            timeout_s=timeout_s + 5 if silence_s is None else silence_s,
            on_open=on_open,
        )
        end_at_s = self._clock() + timeout_s
        try:
            with self._denials.noting(("watch", target.scope)):
                for line in lines:
                    yield decode_watch_event(line)
        except DecodeError as error:
            raise ResponseDecodeError(f"watch of {target.text}: {error}") from error
        if self._clock() < end_at_s - 1:
            self._denials.note_lost()  # a server that shuts down properly closes its watches


def _end_of_watch(target: RequestTarget, data: bytes) -> KubeError:
    """Return the error with which the server has ended a watch."""
    try:
        status = decode_object(_WatchStatus, data)
    except DecodeError as error:
        return ResponseDecodeError(f"watch of {target.text}: {error}")
    return api_error(verb="watch", target=target, status=status.code, message=status.message, reason=status.reason)
