# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The API client: paged reads and guarded writes, with one policy for retries. Its watches are in ``watches.py``.

Reads are repeated on 429, on server errors, on broken connections, and on 403 from a server that may have just started, within
``retry_for_s``. Writes are repeated only if the server certainly did nothing, or if the caller's guard (a resource version or a test) makes
a repetition harmless.
"""

from __future__ import annotations

import math
import threading
import time
import typing as t
from collections.abc import Iterator

from ...model.api.coordination import Event
from ...model.cluster_identity import ClusterIdentity
from ...model.codec import DecodeError, decode_object
from ...model.undecodable import Undecodable, undecodable_of
from .early_denials import EarlyDenials
from .errors import (
    ApiError,
    ConflictError,
    ExpiredError,
    InvalidError,
    MultipleBudgetsError,
    NotSentError,
    PatchTestError,
    RequestTarget,
    ResponseDecodeError,
    TruncatedResponseError,
    UnreachableError,
    is_admission_denial,
    was_not_applied,
)
from .http.transport import READ_TIMEOUT_S, Body, OnStart, QueryParameters, Transport
from .pagination import OnToken, pages
from .resources import EVENTS, PODS, Resource
from .retry import RetryLimits, retry_wait_s
from .watches import Watches

T = t.TypeVar("T")
Until = t.Callable[[], t.Optional[float]]

PAGE_SIZE = 2000
"""Objects of one page of a list. For each page the API server goes through all remaining objects of its cache (kubernetes
``storage/cacher/store/store_btree.go``), so small pages cost it much CPU time in large clusters. With
pages of 5,000, a read of 100,000 pods needs 264 MB here and not 212 MB, and is not faster.
"""
LIST_RESTARTS = 3
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
NOT_APPLIED = "the server rejected our request due to an error in our request"
"""The whole message of an API server for a JSON patch that cannot be applied.

A denial by validation or admission has causes or another message.
"""
LEAST_WRITE_S = 2.0
"""Seconds. A bounded write with less time is not sent."""
EVENT_WITHIN_S = 2.5
"""Seconds for writing an Event if the writes of the program are bounded. An Event is not worth a longer wait."""
CONNECT_WITHIN_S = 1.0
"""The seconds of a bounded write that are reserved for making a new connection."""
ANSWER_WITHIN_S = 0.2
"""The seconds of a bounded write that are reserved for the server's answer after the server's own timeout."""


class ListResult(t.NamedTuple):
    """The objects of a collection, and the resource version from which a watch continues."""

    items: list[t.Any]
    resource_version: str


class KubeApi(Watches):
    """The requests of this collection to an API server.

    ``retry_for_s`` limits the time for repetitions of one call; 0 allows none. After a lost answer one repetition is allowed beyond it.
    ``answer_timeout_s`` limits each time without data from the server. ``until`` returns the time, by the monotonic clock, at which every
    write must have ended, also in the server. It returns None if writes are not bounded. ``write_within_s`` is the longest duration of each
    of these bounded writes, except evictions. No call, also no read, is repeated after an error of the server that came later than half of
    it. ``sleep`` and ``clock`` are for tests.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        retry_for_s: float = 60.0,
        answer_timeout_s: float = READ_TIMEOUT_S,
        page_size: int = PAGE_SIZE,
        sleep: t.Callable[[float], None] = time.sleep,
        clock: t.Callable[[], float] = time.monotonic,
        denials: t.Optional[EarlyDenials] = None,
        until: t.Optional[Until] = None,
        write_within_s: float = math.inf,
    ) -> None:
        super().__init__(transport, denials or EarlyDenials(clock), clock)
        self._write_within_s = write_within_s
        self._until = until
        self._retry_for_s = retry_for_s
        self._answer_timeout_s = answer_timeout_s
        self._page_size = page_size
        self._sleep = sleep

    def with_timeouts(
        self, *, retry_for_s: float, answer_timeout_s: float, until: t.Optional[Until] = None, write_within_s: float = math.inf
    ) -> KubeApi:
        """Return the same API with other time limits, for calls that are useless after a few seconds or that the caller repeats itself.

        Without ``until`` the current bound on writes is kept.
        """
        return KubeApi(
            self._transport,
            retry_for_s=retry_for_s,
            answer_timeout_s=answer_timeout_s,
            page_size=self._page_size,
            sleep=self._sleep,
            clock=self._clock,
            denials=self._denials,
            until=until or self._until,
            write_within_s=min(write_within_s, self._write_within_s),
        )

    @property
    def cluster(self) -> ClusterIdentity:
        """Return the cluster for outputs."""
        return self._transport.cluster

    @property
    def server_version(self) -> str:
        """Return the version of the API server, such as v1.36.3. It is empty if the server has not sent it."""
        return self._transport.server_version

    def now_s(self) -> float:
        """Return the seconds since the epoch by the API server's clock, according to its last answers.

        All times that are stored in the cluster use it, because the clocks of the machines that run this program may differ.
        """
        return self._transport.server_time_s or time.time()

    def list_all(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        each: t.Optional[t.Callable[[t.Any], t.Any]] = None,
        undecodable: t.Optional[list[Undecodable]] = None,
    ) -> list[t.Any]:
        """Return all objects of a collection as structs. If a continue token has expired, the list is started again.

        ``each`` is applied to every object as soon as its page is read, so that parts that it drops are not kept for the whole list.
        An object that cannot be decoded is omitted and added to ``undecodable``. In place of a pod, the list has an ``UndecodablePod``.
        Raises ForbiddenError, UnauthorizedError, NotFoundError, InvalidError (malformed selector), UnreachableError.
        """
        selectors = [("labelSelector", label_selector), ("fieldSelector", field_selector)]
        query = [(name, text) for name, text in selectors if text]

        def decode_page(data: bytes) -> list[t.Any]:
            items = resource.decode_items(data)
            return [item if isinstance(item, Undecodable) else each(item) for item in items] if each is not None else items

        found = self._list(resource, namespace, query, decode_page).items
        if undecodable is not None:
            undecodable += [item for item in map(undecodable_of, found) if item is not None]
        return [item for item in found if not isinstance(item, Undecodable)]

    def list_for_watch(self, resource: Resource, *, field_selector: str = "", decode_page: t.Callable[[bytes], list[t.Any]]) -> ListResult:
        """Return the selected objects of the whole cluster, for a following ``watch_all`` with the same selector.

        ``decode_page`` is called once for each page and returns its objects. If the list has to be started again, it is called again from
        the first page on. Raises the same errors as ``list_all``.
        """
        return self._list(resource, "", [("fieldSelector", field_selector)] if field_selector else [], decode_page)

    def _list(
        self, resource: Resource, namespace: str, query: QueryParameters, decode_page: t.Callable[[bytes], list[t.Any]]
    ) -> ListResult:
        for attempt in range(LIST_RESTARTS):
            try:
                items: list[t.Any] = []
                version = ""
                for data in self._pages(resource, namespace, query):
                    version = version or resource.list_meta(data).resource_version
                    items += decode_page(data)
                return ListResult(items, version)
            except (ExpiredError, TruncatedResponseError):
                if attempt == LIST_RESTARTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _pages(self, resource: Resource, namespace: str, selectors: QueryParameters) -> Iterator[bytes]:
        target = resource.collection_target(namespace)
        if selectors:
            words = {"labelSelector": "label selector", "fieldSelector": "field selector"}
            said = " and ".join(f"{words[name]} {text!r}" for name, text in selectors)
            target = target._replace(text=f"{target.text} with {said}")

        ended = threading.Event()

        def read(token: str, on_token: OnToken) -> Body:
            def on_start(start: bytes) -> None:
                meta = resource.list_start(start)
                if meta is not None:
                    on_token(meta.continue_)

            query = [("limit", str(self._page_size)), *selectors]
            if token:
                query.append(("continue", token))
            return self._read(resource.path(namespace), query, verb="list", target=target, on_start=on_start, ended=ended)

        try:
            # Pages wait compressed and are unpacked one at a time. This needs less memory, and one thread allocates all of it.
            for page in pages(read, lambda page: resource.list_meta(page.unpack()).continue_):
                yield page.unpack()
        finally:
            ended.set()  # requests that are still running are not repeated

    def get(self, resource: Resource, namespace: str, name: str) -> t.Any:
        """Return one object as a struct. Raises NotFoundError with its name."""
        return resource.decode(self.get_bytes(resource, namespace, name))

    def get_plain(self, resource: Resource, namespace: str, name: str) -> dict[str, t.Any]:
        """Return one object as plain values."""
        data = self.get_bytes(resource, namespace, name)
        try:
            return decode_object(dict[str, t.Any], data)
        except DecodeError as error:
            raise ResponseDecodeError(f"{resource.target(namespace, name).text}: {error}") from error

    def get_bytes(self, resource: Resource, namespace: str, name: str) -> bytes:
        """Return one object as the JSON bytes of the server."""
        return self._read(resource.path(namespace, name), (), verb="get", target=resource.target(namespace, name)).unpack()

    def get_path(self, path: str, kind: type[T]) -> T:
        """Return the answer of a path that is no object and no collection, such as /apis, as a struct."""
        data = self._read(path, (), verb="get", target=RequestTarget(f"the path {path}")).unpack()
        try:
            return decode_object(kind, data)
        except DecodeError as error:
            raise ResponseDecodeError(f"{path}: {error}") from error

    def merge_patch(self, resource: Resource, namespace: str, name: str, patch: dict[str, t.Any], *, dry_run: bool = False) -> t.Any:
        """Apply an RFC 7386 merge patch and return the changed object.

        The patch must have ``metadata.resourceVersion``. Then a repetition after a lost answer ends in ConflictError (``repeated``) instead
        of a second change. Raises ConflictError, NotFoundError, InvalidError, ForbiddenError, UnreachableError.
        """
        return self._repeat(lambda: self._patch(resource, namespace, name, patch, MERGE_PATCH, dry_run=dry_run))

    def json_patch(
        self, resource: Resource, namespace: str, name: str, operations: list[dict[str, t.Any]], *, dry_run: bool = False
    ) -> t.Any:
        """Apply an RFC 6902 JSON patch and return the changed object.

        If one of the operations is a ``test``, the patch is repeated after a lost answer. If the first patch was applied, the test then
        fails (PatchTestError, ``repeated``). Without a test the patch is repeated only if the server certainly did nothing.
        Raises PatchTestError, InvalidError, NotFoundError, ForbiddenError, UnreachableError.
        """
        guarded = any(operation["op"] == "test" for operation in operations)

        def patch() -> t.Any:
            try:
                return self._patch(resource, namespace, name, operations, JSON_PATCH, dry_run=dry_run)
            except InvalidError as error:
                if guarded and error.status == 422 and not error.causes and NOT_APPLIED in str(error):
                    raise PatchTestError(f"{error}: it is not as it was read", status=422, reason=error.reason) from error
                raise

        return self._repeat(patch, harmless=guarded)

    def _patch(self, resource: Resource, namespace: str, name: str, body: t.Any, content_type: str, *, dry_run: bool) -> t.Any:
        answer = self._write(
            "patch",
            resource.path(namespace, name),
            verb="patch",
            target=resource.target(namespace, name),
            query=_dry_run_query(dry_run),
            body=body,
            content_type=content_type,
            at_most_s=self._write_within_s,
        )
        return resource.decode_written(answer.unpack())

    def create(self, resource: Resource, namespace: str, body: dict[str, t.Any], *, dry_run: bool = False) -> t.Any:
        """Create an object with the name in its metadata and return the created object.

        Raises ConflictError if the name exists (with ``repeated`` it may be this object), ForbiddenError, InvalidError, NotFoundError (no
        such namespace), UnreachableError.
        """
        name = body["metadata"]["name"]
        answer = self._repeat(
            lambda: self._write(
                "post",
                resource.path(namespace),
                verb="create",
                target=resource.target(namespace, name),
                query=_dry_run_query(dry_run),
                body=body,
                at_most_s=self._write_within_s,
            )
        )
        return resource.decode_written(answer.unpack())

    def events_on(self, namespace: str, uid: str, *, reason: str) -> list[Event]:
        """Return the core/v1 Events with this reason on one object. The namespace is ``default`` for objects of the whole cluster."""
        return self.list_all(EVENTS, namespace=namespace, field_selector=f"involvedObject.uid={uid},reason={reason}")

    def create_event(self, namespace: str, event: dict[str, t.Any]) -> None:
        """Write one core/v1 Event. It is not repeated, so that no Event appears twice. Raises ApiError or UnreachableError."""
        self._write(
            "post",
            EVENTS.path(namespace),
            verb="create",
            target=RequestTarget(EVENTS.scope(namespace)),
            body=event,
            at_most_s=EVENT_WITHIN_S,
        )

    def evict(self, namespace: str, name: str, *, uid: str, grace_period_s: t.Optional[int] = None, dry_run: bool = False) -> None:
        """Request the eviction of the pod with this uid, and not of another pod with the same name (policy/v1 Eviction).

        ``grace_period_s``: whole seconds for the pod to terminate. None means the value in its spec.
        The request is repeated only after denials by a server that has just started. Before any other repetition the caller has to know the
        reason for the failure. Raises BudgetError (may succeed later), MultipleBudgetsError (never succeeds), NotFoundError or
        ConflictError (the pod is gone, or its budget is being written or deleted: read the pod), ForbiddenError, OverloadedError, ApiError,
        UnreachableError.
        """
        options: dict[str, t.Any] = {"preconditions": {"uid": uid}}
        if grace_period_s is not None:
            options["gracePeriodSeconds"] = grace_period_s
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": options,
        }
        path = f"{PODS.path(namespace, name)}/eviction"
        target = RequestTarget(f"an eviction of Pod {namespace}/{name}", f"pods/eviction in namespace {namespace}")
        try:
            self._retry_early_denials(
                lambda: self._write("post", path, verb="create", target=target, query=_dry_run_query(dry_run), body=body)
            )
        except ApiError as error:
            # The API server itself has only one Status with code 500 and no reason (kubernetes ``pod/storage/eviction.go``). A webhook that
            # denies the eviction chooses code and reason of its Status.
            if error.status == 500 and error.reason == "" and not is_admission_denial(error):
                raise MultipleBudgetsError(str(error), status=500, reason="") from error
            raise

    def _request(self, method: str, path: str, *, verb: str, target: RequestTarget, **how: t.Any) -> Body:
        with self._denials.noting((verb, target.scope)):
            return self._transport.request(method, path, verb=verb, target=target, **how)

    def _write(
        self,
        method: str,
        path: str,
        *,
        verb: str,
        target: RequestTarget,
        query: QueryParameters = (),
        at_most_s: float = math.inf,
        **how: t.Any,
    ) -> Body:
        """Send a write that ends in time, also in the server. An API server continues a request after its client has timed out.

        The query parameter ``timeout`` limits the time in the server, including webhooks and storage (kubernetes
        ``endpoints/filters/request_deadline.go``). If writes are not bounded, ``at_most_s`` has no effect. Raises NotSentError if too
        little time is left.
        """
        end_s = self._until() if self._until is not None else None
        if end_s is None:
            return self._request(method, path, verb=verb, target=target, query=query, timeout_s=self._answer_timeout_s, **how)
        within_s = min(end_s - self._clock(), self._answer_timeout_s, at_most_s)
        if within_s < min(LEAST_WRITE_S, self._answer_timeout_s):
            raise NotSentError(f"{verb} {target.text} was not sent: this program may not write any more, or only for {within_s:.1f} s")
        answer_s = within_s - CONNECT_WITHIN_S
        bound = ("timeout", f"{round((answer_s - ANSWER_WITHIN_S) * 1000)}ms")
        times = {"timeout_s": answer_s, "connect_timeout_s": CONNECT_WITHIN_S}
        return self._request(method, path, verb=verb, target=target, query=[*query, bound], **times, **how)

    def _read(
        self,
        path: str,
        query: QueryParameters,
        *,
        verb: str,
        target: RequestTarget,
        on_start: t.Optional[OnStart] = None,
        ended: t.Optional[threading.Event] = None,
    ) -> Body:
        def call() -> Body:
            return self._request("get", path, verb=verb, target=target, query=query, timeout_s=self._answer_timeout_s, on_start=on_start)

        return self._repeat(call, writes=False, ended=ended)

    def _retry_early_denials(self, call: t.Callable[[], T]) -> T:
        """Repeat the call only while the server denies it because it has just started."""
        return self._repeat(call, only_early=True)

    def _repeat(
        self,
        call: t.Callable[[], T],
        *,
        writes: bool = True,
        harmless: bool = True,
        only_early: bool = False,
        ended: t.Optional[threading.Event] = None,
    ) -> T:
        """Repeat the call after errors that may pass. ``retry_wait_s`` decides.

        The error of a write says in ``repeated`` whether an earlier try may have succeeded. Nothing is repeated after ``ended`` is set.
        """
        began_s, failures, unclear = self._clock(), 0, False
        while True:
            try:
                return call()
            except (ApiError, UnreachableError) as error:
                failures += 1
                limits = self._retry_limits(self._clock() - began_s)
                wait_s = retry_wait_s(error, failures, limits, harmless=harmless, only_early=only_early)
                if isinstance(error, ConflictError) or wait_s is None or (ended is not None and ended.is_set()):
                    error.repeated = unclear
                    raise
                unclear = unclear or (writes and not was_not_applied(error))
            self._sleep(wait_s)

    def _retry_limits(self, elapsed_s: float) -> RetryLimits:
        end_s = self._until() if self._until is not None else None
        left_s = math.inf if end_s is None else end_s - self._clock()
        return RetryLimits(elapsed_s, self._retry_for_s, self._write_within_s, self._answer_timeout_s, left_s)


def _dry_run_query(dry_run: bool) -> QueryParameters:
    return [("dryRun", "All")] if dry_run else []
