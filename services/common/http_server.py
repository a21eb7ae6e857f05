# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""An HTTP server for small answers that limits connections, bytes and time, so that no client can exhaust it.

It serves a WSGI application in one thread, one request at a time. The answers must need no time to compute. Each connection has one
request. No library was found that limits the time of a whole request: uvicorn has no limit for a slow header, and wsgiref needs a thread
for each client.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import typing as t
from collections import Counter
from collections.abc import Iterable
from email.message import Message
from email.parser import Parser

MAX_CONNECTIONS = 256
"""Open connections. The next client replaces one that has not finished its request."""

MAX_HEAD_BYTES = 8192
"""The size limit of the request line with all headers. Probes and scrapes send a few hundred bytes."""

REQUEST_S = 10.0
"""Seconds for a whole request, from the connection to the end of the answer."""

MAX_IGNORED_BYTES = 65_536
"""Bytes that a client may still send after its answer was written."""

BACKLOG = 128
"""Connections that the kernel accepts before the server does.

The server accepts this number at a time, which is less than MAX_CONNECTIONS.
"""

WsgiApp = t.Callable[[dict[str, t.Any], t.Callable[..., t.Any]], Iterable[bytes]]


class EndpointServer:
    """Serves ``app`` on a listening socket, in a background thread, until ``close``."""

    def __init__(self, listener: socket.socket, app: WsgiApp, *, request_s: float = REQUEST_S) -> None:
        self._app = app
        self._request_s = request_s
        self._clients: dict[asyncio.Task[None], str] = {}
        """The open connections with the addresses of their clients, in the order of their start."""
        self._loop = asyncio.new_event_loop()
        self._server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, sock=listener, limit=MAX_HEAD_BYTES, backlog=BACKLOG)
        )
        self._thread = threading.Thread(target=self._loop.run_forever, name="endpoints", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the listening socket and all connections."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        self._server.close()
        clients = list(self._clients)
        for client in clients:
            client.cancel()
        await asyncio.gather(*clients, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection from its first byte to its last."""
        client = t.cast("asyncio.Task[None]", asyncio.current_task())
        self._drop_oldest()
        self._clients[client] = str((writer.get_extra_info("peername") or ("",))[0])
        try:
            async with asyncio.timeout(self._request_s):
                await self._answer(reader, writer)
        except (TimeoutError, OSError):
            pass  # A slow or disconnected client is not a problem of this program.
        except asyncio.CancelledError:
            pass  # Another client replaced this one, or the server is closing.
        finally:
            del self._clients[client]
            # close() would wait for a client that does not read.
            writer.transport.abort()

    def _drop_oldest(self) -> None:
        """If there are too many connections, drop the oldest connection of the address with most connections.

        A machine that opens many connections displaces only its own: the probes of the kubelet come from another address.
        """
        waiting = {client: address for client, address in self._clients.items() if not client.cancelling()}
        if len(waiting) < MAX_CONNECTIONS:
            return
        ((crowded, _connections),) = Counter(waiting.values()).most_common(1)
        next(client for client, address in waiting.items() if address == crowded).cancel()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return
        except asyncio.LimitOverrunError:
            answer = _refusal("431 Request Header Fields Too Large", f"the request has more than {MAX_HEAD_BYTES} bytes of headers")
        else:
            answer = _answer_to(self._app, head)
        writer.write(answer)
        await writer.drain()
        writer.write_eof()
        # Read the data that the client still sends. If the connection were closed earlier, the client could lose the answer.
        with contextlib.suppress(asyncio.IncompleteReadError):
            for _part in range(MAX_IGNORED_BYTES // MAX_HEAD_BYTES):
                await reader.readexactly(MAX_HEAD_BYTES)


def _answer_to(app: WsgiApp, head: bytes) -> bytes:
    line, _end, rest = head.partition(b"\r\n")
    words = line.decode("latin-1").split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _refusal("400 Bad Request", "the request line is METHOD PATH HTTP/1.1")
    # Parsed from text, because a value of non-ASCII bytes would be an object without string methods.
    headers = Parser().parsestr(rest.decode("latin-1"), headersonly=True)
    if headers.get("Transfer-Encoding") or headers.get("Content-Length", "0").strip() != "0":
        return _refusal("413 Content Too Large", "requests have no body here")
    return _call(app, words[0], words[1], headers)


def _call(app: WsgiApp, method: str, target: str, headers: Message) -> bytes:
    """Return the answer of the application as bytes."""
    path, _mark, query = target.partition("?")
    environ = {
        "REQUEST_METHOD": method,
        "PATH_INFO": path,
        "QUERY_STRING": query,
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in headers.items()},
    }
    started: list[tuple[str, list[tuple[str, str]]]] = []
    body = b"".join(app(environ, lambda status, fields: started.append((status, fields))))
    ((status, fields),) = started
    return _response(status, fields, body, with_body=method != "HEAD")


def _refusal(status: str, text: str) -> bytes:
    return _response(status, [("Content-Type", "text/plain; charset=utf-8")], f"{text}\n".encode())


def _response(status: str, fields: Iterable[tuple[str, str]], body: bytes, *, with_body: bool = True) -> bytes:
    sent = [(name, value) for name, value in fields if name.lower() not in ("content-length", "connection")]
    lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in sent), f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + (body if with_body else b"")
