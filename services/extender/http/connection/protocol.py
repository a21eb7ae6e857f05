# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""uvicorn's protocol with a shorter way for the requests of kube-scheduler, and with fewer system calls."""

from __future__ import annotations

import asyncio
import typing as t

from ..direct_answers import DirectAnswers
from .connections import LimitedProtocol
from .joined_writes import JoinedWrites

PIECES_S = 0.1
"""Seconds in which all pieces of a request must come. After that ASGI receives it, which has the limit of the settings."""


class Protocol(LimitedProtocol):
    """One connection. If the application has ``direct``, plain requests between two others are answered by it."""

    @property
    def is_idle(self) -> bool:
        """Return whether no request is received in pieces or answered."""
        return not self._pieces and super().is_idle

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take over a new connection."""
        self._direct: DirectAnswers | None = getattr(self.config.app, "direct", None)
        self._pieces: list[bytes] = []
        self._missing = 0
        self._timer: asyncio.TimerHandle | None = None
        self._writes = JoinedWrites(transport, self.loop)
        super().connection_made(t.cast(asyncio.Transport, self._writes))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a request that is not complete."""
        self._take_pieces()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Answer a request, wait for its other pieces, or pass the data to the parser."""
        if self._direct is None or not self._may_answer():
            self._pass_pieces()
            return super().data_received(data)
        if self._pieces:
            self._pieces.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return None
            data = self._take_pieces()
        answer = self._direct.answer(data)
        if answer is not None:
            self._writes.send(answer)
            return self.note_answer()
        missing = self._direct.missing_bytes(data)
        return self._wait_for(missing, data) if missing > 0 else super().data_received(data)

    def shutdown(self) -> None:
        """Begin to end the connection. A request that is not complete is still answered."""
        self._pass_pieces()
        super().shutdown()

    def _may_answer(self) -> bool:
        """Return whether all earlier requests were answered and the answers were sent."""
        if self._head_bytes != 0 or self.pipeline or self.flow.write_paused or self._writes.is_closing():
            return False
        return self.cycle is None or self.cycle.response_complete

    def _wait_for(self, missing: int, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._pieces, self._missing = [data], missing
        self._timer = self.loop.call_later(PIECES_S, self._pass_pieces)

    def _take_pieces(self) -> bytes:
        if self._timer is not None:
            self._timer.cancel()
        pieces, self._pieces, self._timer = self._pieces, [], None
        return b"".join(pieces)

    def _pass_pieces(self) -> None:
        data = self._take_pieces()
        if data and not self.transport.is_closing():
            super().data_received(data)
