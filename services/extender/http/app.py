# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The ASGI application. It has no framework: a request of the scheduler passes one function."""

from __future__ import annotations

import typing as t
from collections.abc import Awaitable, Callable, Iterable, Mapping

from ....plugins.module_utils.model.codec import encode_json
from ...common.log import Log
from ..metrics import Metrics
from .direct_answers import DirectAnswers
from .limits import MAX_BODY_BYTES, REQUEST_TIMEOUT_S
from .messages.body import BodyError, BodyLimits, Receive, read_body
from .messages.request_parts import BadRequestError
from .pages.status_api import PAGES, SCRAPES, Response, StatusApi
from .scheduler_api import NoSuchPathError, SchedulerApi
from .slow_answers import BusyError, SlowAnswers

AsgiHeaders = Iterable[tuple[bytes, bytes]]
Send = Callable[[Mapping[str, t.Any]], Awaitable[None]]

JSON = b"application/json"
JSON_TYPE = (b"content-type", JSON)
SCHEDULER_PREFIX = "/scheduler/"
MAX_LOGGED_REFUSALS, MAX_LOGGED = 20, 300
"""Different refusals that are logged, each once, and the characters of each. Any client can cause them."""


class App:
    """The application. ``scheduler`` is None on the second address, which has no paths of the scheduler."""

    def __init__(
        self,
        scheduler: SchedulerApi | None,
        status_api: StatusApi,
        metrics: Metrics,
        log: Log,
        *,
        max_body_bytes: int = MAX_BODY_BYTES,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self._scheduler, self._status_api, self._metrics, self._log = scheduler, status_api, metrics, log
        self._bodies, self._request_timeout_s = BodyLimits(max_body_bytes), request_timeout_s
        self.direct = DirectAnswers(scheduler.handlers, self._refusal, max_body_bytes=max_body_bytes) if scheduler is not None else None
        """Answers most requests of the scheduler. The protocol uses it."""
        self._refusals: set[str] = set()
        # Prometheus has a thread of its own, so that no page delays its scrape.
        self._slow = {PAGES: SlowAnswers("pages"), SCRAPES: SlowAnswers("scrapes")}

    async def __call__(self, scope: Mapping[str, t.Any], receive: Receive, send: Send) -> None:
        """Answer one request. An error of this program is answered with 500, and the next request is answered as usual."""
        if scope["type"] != "http":
            return
        try:
            if self._scheduler is not None and scope["path"].startswith(SCHEDULER_PREFIX):
                await self._answer_scheduler(self._scheduler, scope, receive, send)
            else:
                await _send(send, await self._answer_status(scope))
        except Exception as error:
            await _send(send, self._refusal(scope["path"], error))

    async def _answer_scheduler(self, api: SchedulerApi, scope: Mapping[str, t.Any], receive: Receive, send: Send) -> None:
        try:
            handler = api.handler(scope["path"])
            if scope["method"] != "POST":
                return await self._refuse(send, 405, "the scheduler's paths accept only POST", (b"allow", b"POST"))
            if not _is_json(scope["headers"]):
                return await self._refuse(send, 415, "the Content-Type must be application/json")
            body = await read_body(scope["headers"], receive, self._bodies, timeout_s=self._request_timeout_s)
            answer = handler(body)
        except BodyError as error:
            if error.status:
                await self._refuse(send, error.status, str(error), (b"connection", b"close"))
            return None
        await send({"type": "http.response.start", "status": 200, "headers": [JSON_TYPE, (b"content-length", b"%d" % len(answer))]})
        await send({"type": "http.response.body", "body": answer})
        return None

    async def _answer_status(self, scope: Mapping[str, t.Any]) -> Response:
        if self._scheduler is not None and scope["method"] == "POST" and self._status_api.handler(scope["path"]) is None:
            return self._refused(404, f"there is no path {scope['path']}: urlPrefix of the scheduler's extender must end with /scheduler")
        if scope["method"] not in ("GET", "HEAD"):
            return error_response(405, "this path accepts only GET and HEAD", (b"allow", b"GET, HEAD"))
        handler = self._status_api.handler(scope["path"])
        if handler is None:
            return error_response(404, f"there is no path {scope['path']}; there are {', '.join(self._status_api.paths)}")
        query, headers = scope["query_string"], dict(scope["headers"])
        kind = self._status_api.slow_kind(scope["path"])
        if kind is None:
            return handler(query, headers)
        try:
            return await self._slow[kind].run(lambda: handler(query, headers))
        except BusyError as error:
            return error_response(503, str(error), (b"retry-after", b"1"))

    def _refusal(self, path: str, error: Exception) -> Response:
        """Return the answer to a request that has raised an error. An error of this program is logged."""
        if isinstance(error, BadRequestError):
            return self._refused(error.status, str(error))
        if isinstance(error, NoSuchPathError):
            return self._refused(404, str(error))
        self._log.error("a request has failed", path=path, error=str(error), cause=error)
        return self._refused(500, f"{type(error).__name__}: {error}")

    async def _refuse(self, send: Send, status: int, text: str, *headers: tuple[bytes, bytes]) -> None:
        await _send(send, self._refused(status, text, *headers))

    def _refused(self, status: int, text: str, *headers: tuple[bytes, bytes]) -> Response:
        self._metrics.refused.labels(str(status)).inc()
        # The scheduler ignores a failed request without a line in its log.
        if len(self._refusals) < MAX_LOGGED_REFUSALS and text[:MAX_LOGGED] not in self._refusals:
            self._refusals.add(text[:MAX_LOGGED])
            self._log.warning(
                "a request of the scheduler was refused; the same refusal is not logged again", status=status, error=text[:MAX_LOGGED]
            )
        return error_response(status, text, *headers)


def error_response(status: int, text: str, *headers: tuple[bytes, bytes]) -> Response:
    """Return an error as JSON. Half a surrogate pair, which an agent's error can have, becomes a question mark."""
    return Response(status, JSON.decode(), encode_json({"error": text.encode("utf-8", "replace").decode()}), headers)


def _is_json(headers: AsgiHeaders) -> bool:
    """Return whether the body is JSON. A client that does not name the type is believed."""
    for name, value in headers:
        if name == b"content-type":
            return value == JSON or value.partition(b";")[0].strip().lower() == JSON
    return True


async def _send(send: Send, response: Response) -> None:
    length = (b"content-length", b"%d" % len(response.body))
    headers = [(b"content-type", response.content_type.encode()), length, *response.headers]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    await send({"type": "http.response.body", "body": response.body})
