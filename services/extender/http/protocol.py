# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""uvicorn's protocol with a shorter way for the requests of kube-scheduler, and with fewer system calls."""

from __future__ import annotations

import asyncio
import typing as t

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .direct_answers import DirectAnswers
from .joined_writes import JoinedWrites


class Protocol(HttpToolsProtocol):
    """One connection. If the application has ``direct``, requests that come as a whole between two others are answered by it."""

    is_between_requests = True
    """The parser has read its last request to the end."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take over a new connection."""
        self._direct: DirectAnswers | None = getattr(self.config.app, "direct", None)
        super().connection_made(t.cast(asyncio.Transport, JoinedWrites(transport, self.loop)))

    def data_received(self, data: bytes) -> None:
        """Answer a request, or pass the data to the parser."""
        if self._direct is None or not self._is_idle():
            return super().data_received(data)
        answer = self._direct.answer(data)
        if answer is None:
            return super().data_received(data)
        self.transport.writelines(answer)
        self.on_response_complete()
        return None

    def on_message_begin(self) -> None:
        """Note that the parser is in a request."""
        self.is_between_requests = False
        super().on_message_begin()

    def on_message_complete(self) -> None:
        """Note that the parser is not in a request."""
        self.is_between_requests = True
        super().on_message_complete()

    def _is_idle(self) -> bool:
        """Return whether all earlier requests were answered and the answers were sent."""
        if not self.is_between_requests or self.pipeline or self.flow.write_paused or self.transport.is_closing():
            return False
        return self.cycle is None or self.cycle.response_complete
