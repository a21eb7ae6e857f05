# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The application. It has no framework: a request of the scheduler passes one function."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor

from ....plugins.module_utils.model.codec import encode_json
from ...common.http.messages import Request, Response
from ...common.log import Log
from ..metrics import Metrics
from .pages.status_api import PAGES, SCRAPES, PageHandler, StatusApi
from .scheduler_api import ROOT, SchedulerApi
from .wire import BadRequestError

JSON = b"application/json"
MAX_LOGGED_REFUSALS, MAX_LOGGED = 20, 300
"""Different refusals that are logged, each once, and the characters of each. Any client can cause them."""

MAX_WAITING = 4
"""Answers that wait for one thread. A page about 5,000 nodes takes about a second, and nobody waits longer for one."""


class App:
    """The application. ``scheduler`` is None on the second address, which has no paths of the scheduler."""

    def __init__(self, scheduler: SchedulerApi | None, status_api: StatusApi, metrics: Metrics, log: Log) -> None:
        self._scheduler, self._status_api, self._metrics, self._log = scheduler, status_api, metrics, log
        self._refusals: set[str] = set()
        # A page needs a calculation over all nodes. Prometheus has a thread of its own, so that no page delays its scrape.
        self._threads = {kind: ThreadPoolExecutor(1, kind) for kind in (PAGES, SCRAPES)}
        self._open = dict.fromkeys(self._threads, 0)

    def answer(self, request: Request) -> Response | Awaitable[Response]:
        """Return the answer. An error of this program is answered with 500, and the next request is answered as usual."""
        try:
            if self._scheduler is not None and request.path.startswith(ROOT):
                return self._answer_scheduler(self._scheduler, request)
            return self._answer_status(request)
        except Exception as error:
            return self._error(request.path, error)

    def refusal(self, status: int, text: str) -> Response:
        """Return the answer to a request that breaks a limit of the server."""
        return self._refused(status, text) if self._scheduler is not None else error_response(status, text)

    def _answer_scheduler(self, api: SchedulerApi, request: Request) -> Response:
        handler = api.handler(request.path)
        if request.method != "POST":
            return self._refused(405, "the scheduler's paths accept only POST", (b"allow", b"POST"))
        # A client that does not name the type is believed.
        content_type = request.headers.get(b"content-type", JSON)
        if content_type != JSON and content_type.partition(b";")[0].strip().lower() != JSON:
            return self._refused(415, "the Content-Type must be application/json")
        return Response(200, JSON.decode(), handler(request.body))

    def _answer_status(self, request: Request) -> Response | Awaitable[Response]:
        path, handler = request.path, self._status_api.handler(request.path)
        if self._scheduler is not None and request.method == "POST" and handler is None:
            return self._refused(404, f"there is no path {path}: urlPrefix of the scheduler's extender must end with /scheduler")
        if request.method not in ("GET", "HEAD"):
            return error_response(405, "this path accepts only GET and HEAD", (b"allow", b"GET, HEAD"))
        if handler is None:
            return error_response(404, f"there is no path {path}; there are {', '.join(self._status_api.paths)}")
        kind = self._status_api.slow_kind(path)
        if kind is None:
            return handler(request.query, request.headers)
        if self._open[kind] > MAX_WAITING:
            text = f"{MAX_WAITING} other requests already wait for an answer of this kind: try again"
            return error_response(503, text, (b"retry-after", b"1"))
        self._open[kind] += 1
        return self._answer_in_thread(kind, handler, path, request.query, request.headers)

    async def _answer_in_thread(self, kind: str, handler: PageHandler, path: str, query: bytes, headers: Mapping[bytes, bytes]) -> Response:
        """Return the answer. The body of the request, which can be large, is not kept until then."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads[kind], handler, query, headers)
        except Exception as error:
            return self._error(path, error)
        finally:
            self._open[kind] -= 1

    def _error(self, path: str, error: Exception) -> Response:
        """Return the answer to a request that has raised an error. An error of this program is logged."""
        if isinstance(error, BadRequestError):
            return self._refused(error.status, str(error))
        self._log.error("a request has failed", path=path, error=str(error), cause=error)
        return self._refused(500, f"{type(error).__name__}: {error}")

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
