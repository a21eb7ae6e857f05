# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serves a VirtualPrometheus over Prometheus' HTTP API, so that the extender asks it as it asks a real one."""

from __future__ import annotations

from tests.soak.placement.virtual_prometheus import VirtualPrometheus
from tests.unit.services.extender.sources.prometheus_server import Handler, Server

EPOCH_S = 1_800_000_000.0
"""Prometheus' clock at the virtual time 0."""


class QueryServer:
    """One server for all runs. ``source`` and ``now_s`` are replaced while it runs."""

    def __init__(self) -> None:
        self.source = VirtualPrometheus(())
        self.now_s = 0.0
        self._server = Server()
        self._server.fault = self._reply
        self.url = self._server.url

    def stop(self) -> None:
        """End the server."""
        self._server.stop()

    def _reply(self, handler: Handler) -> None:
        text, at_s = handler.server.asked.pop(), EPOCH_S + self.now_s
        offset_s = EPOCH_S if text.startswith("timestamp(") else 0.0
        try:
            rows = self.source.answer(text, self.now_s)
        except KeyError:
            return handler.reply_json(400, {"status": "error", "errorType": "bad_data", "error": f"unknown query {text}"})
        result = [{"metric": row.labels, "value": [at_s, repr(row.value + offset_s)]} for row in rows]
        return handler.reply_json(200, {"status": "success", "data": {"resultType": "vector", "result": result}})
