# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Reads in pages, guarded writes and watches, with one policy for what is worth a second try.

Reads are repeated on 429, on server errors and on broken connections, for as long as ``retry_for_s`` allows; writes only where
the server surely did nothing or the caller's guard (a resource version) makes a repetition harmless.
"""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from ..model.wire import WatchEvent, decode_json
from .errors import ApiError, ConflictError, ExpiredError, OverloadedError, SeveralBudgetsError, Subject, UnreachableError, UntrustedError
from .resources import EVENTS, PODS, Resource
from .transport import Query, Transport

T = t.TypeVar("T")

PAGE_SIZE = 1000
LIST_RESTARTS = 3
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 10.0
MERGE_PATCH = "application/merge-patch+json"


class KubeApi:
    """What this collection asks of an API server.

    ``retry_for_s`` bounds the time spent on repetitions of one call; ``sleep`` and ``clock`` are for tests.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        retry_for_s: float = 60.0,
        page_size: int = PAGE_SIZE,
        sleep: t.Callable[[float], None] = time.sleep,
        clock: t.Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = transport
        self._retry_for_s = retry_for_s
        self._page_size = page_size
        self._sleep = sleep
        self._clock = clock

    def now_s(self) -> float:
        """Seconds since the epoch by the API server's clock as of its last answer.

        Everything that is remembered in the cluster uses it, because the machines that run this program may disagree.
        """
        return self._transport.server_time_s or time.time()

    def list_all(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        each: t.Optional[t.Callable[[t.Any], t.Any]] = None,
    ) -> list[t.Any]:
        """All objects of a collection, as structs; an expired continue token starts the list again.

        ``each`` is applied to every object as soon as its page is there, so that what it drops is not kept for the whole list.
        Raises ForbiddenError, UnauthorizedError, NotFoundError, InvalidError (malformed selector), UnreachableError.
        """
        for attempt in range(LIST_RESTARTS):
            try:
                pages = self._pages(resource, namespace, label_selector)
                items = (item for page in pages for item in page)
                return [each(item) for item in items] if each is not None else list(items)
            except ExpiredError:
                if attempt == LIST_RESTARTS - 1:
                    raise
        raise AssertionError("unreachable")

    def _pages(self, resource: Resource, namespace: str, label_selector: str) -> Iterator[list[t.Any]]:
        subject = _collection(resource, namespace)
        if label_selector:
            subject = subject._replace(text=f"{subject.text} with label selector {label_selector!r}")

        def read(token: str) -> bytes:
            query = [("limit", str(self._page_size))]
            if label_selector:
                query.append(("labelSelector", label_selector))
            if token:
                query.append(("continue", token))
            return self._read(resource.path(namespace), query, verb="list", subject=subject)

        # While one page is decoded here, the server already works on the next.
        with ThreadPoolExecutor(max_workers=1) as ahead:
            data = read("")
            while token := resource.continue_token(data):
                coming = ahead.submit(read, token)
                yield resource.decode_items(data)
                data = coming.result()
            yield resource.decode_items(data)

    def get(self, resource: Resource, namespace: str, name: str) -> t.Any:
        """One object as a struct; raises NotFoundError with its name."""
        return resource.decode(self.get_bytes(resource, namespace, name))

    def get_bytes(self, resource: Resource, namespace: str, name: str) -> bytes:
        """One object as the server wrote it."""
        return self._read(resource.path(namespace, name), (), verb="get", subject=_object(resource, namespace, name))

    def merge_patch(self, resource: Resource, namespace: str, name: str, patch: dict[str, t.Any], *, dry_run: bool = False) -> t.Any:
        """Apply an RFC 7386 merge patch and return the object as it is then.

        The patch must carry ``metadata.resourceVersion``: a repetition after a lost answer then ends in ConflictError (``repeated``)
        instead of a second change. Raises ConflictError, NotFoundError, InvalidError, ForbiddenError, UnreachableError.
        """
        query = [("dryRun", "All")] if dry_run else []
        data = self._repeat(
            lambda: self._transport.request(
                "patch",
                resource.path(namespace, name),
                verb="patch",
                subject=_object(resource, namespace, name),
                query=query,
                body=patch,
                content_type=MERGE_PATCH,
            )
        )
        return resource.decode(data)

    def create_event(self, namespace: str, event: dict[str, t.Any]) -> None:
        """Write one core/v1 Event. Raises ApiError or UnreachableError; it is not repeated, so that none appears twice."""
        self._transport.request("post", EVENTS.path(namespace), verb="create", subject=_events(namespace), body=event)

    def evict(self, namespace: str, name: str, *, uid: str, dry_run: bool = False) -> None:
        """Ask for the eviction of one pod, and of no other that has its name by now (policy/v1 Eviction).

        It is asked once: whoever asks again has to know why. Raises BudgetError (later, perhaps), SeveralBudgetsError (never),
        NotFoundError or ConflictError (the pod is gone), ForbiddenError, OverloadedError, ApiError, UnreachableError.
        """
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        path = f"{PODS.path(namespace, name)}/eviction"
        subject = Subject(f"pods/eviction {namespace}/{name}", f"pods/eviction in namespace {namespace}")
        try:
            self._transport.request("post", path, verb="create", subject=subject, query=[("dryRun", "All")] if dry_run else (), body=body)
        except ApiError as error:
            # The only Status with code 500 that has no reason (kubernetes ``pod/storage/eviction.go``); every other one is InternalError.
            if error.status == 500 and error.reason == "":
                raise SeveralBudgetsError(str(error), status=500, reason="") from error
            raise

    def watch(self, resource: Resource, namespace: str, name: str, *, resource_version: str, timeout_s: float) -> Iterator[WatchEvent]:
        """Changes of one object since ``resource_version``, until the server or ``timeout_s`` ends the watch.

        Raises ForbiddenError where watching is not allowed, ExpiredError where the version is too old.
        """
        query = [("fieldSelector", f"metadata.name={name}"), ("resourceVersion", resource_version)]
        return self._watch(resource, namespace, query, subject=_object(resource, namespace, name), timeout_s=timeout_s)

    def watch_selected(self, resource: Resource, namespace: str, *, label_selector: str, timeout_s: float) -> Iterator[WatchEvent]:
        """The selected objects that there are, as ADDED, and then their changes, until the server or ``timeout_s`` ends the watch.

        Raises ForbiddenError where watching is not allowed.
        """
        return self._watch(
            resource, namespace, [("labelSelector", label_selector)], subject=_collection(resource, namespace), timeout_s=timeout_s
        )

    def _watch(self, resource: Resource, namespace: str, query: Query, *, subject: Subject, timeout_s: float) -> Iterator[WatchEvent]:
        lines = self._transport.lines(
            resource.path(namespace),
            verb="watch",
            subject=subject,
            query=[("watch", "true"), *query, ("timeoutSeconds", str(max(1, int(timeout_s))))],
            timeout_s=timeout_s + 5,
        )
        for line in lines:
            yield decode_json(WatchEvent, line)

    def _read(self, path: str, query: Query, *, verb: str, subject: Subject) -> bytes:
        return self._repeat(lambda: self._transport.request("get", path, verb=verb, subject=subject, query=query))

    def _repeat(self, call: t.Callable[[], T]) -> T:
        deadline = self._clock() + self._retry_for_s
        pause_s = FIRST_PAUSE_S
        unclear = False
        while True:
            try:
                return call()
            except ConflictError as error:
                error.repeated = unclear
                raise
            except (ApiError, UnreachableError) as error:
                wait_s = _wait_before_retry(error, pause_s)
                if wait_s is None or self._clock() + wait_s > deadline:
                    raise
                unclear = unclear or not isinstance(error, OverloadedError)
            self._sleep(wait_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)


def _wait_before_retry(error: ApiError | UnreachableError, pause_s: float) -> t.Optional[float]:
    """Seconds to wait before the same call again, or None where it would not help."""
    if isinstance(error, UnreachableError):
        return None if isinstance(error, UntrustedError) else pause_s
    if isinstance(error, OverloadedError) or error.status in (500, 502, 503, 504):
        return error.retry_after_s if error.retry_after_s is not None else pause_s
    return None


def _collection(resource: Resource, namespace: str) -> Subject:
    scope = _scope(resource, namespace)
    return Subject(scope, scope, "leave the namespace out" if namespace else "")


def _object(resource: Resource, namespace: str, name: str) -> Subject:
    path = f"{namespace}/{name}" if resource.namespaced else name
    return Subject(f"{resource.plural} {path}", _scope(resource, namespace))


def _events(namespace: str) -> Subject:
    return Subject(_scope(EVENTS, namespace))


def _scope(resource: Resource, namespace: str) -> str:
    """Where a role has to grant a verb on the resource."""
    if not resource.namespaced:
        return resource.plural
    return f"{resource.plural} in namespace {namespace}" if namespace else f"{resource.plural} in all namespaces"
