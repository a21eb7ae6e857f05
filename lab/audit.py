# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reader of the API server's audit log: who asked for what since a mark.

Tests count requests with it, and least-privilege roles are derived from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMPLETE = "ResponseComplete"
STARTED = "ResponseStarted"
BEGIN = b'{"kind":"Event",'
"""The beginning of each line."""


@dataclass(frozen=True)
class AuditEvent:
    """One request. `resource` is empty for paths such as /healthz; a subresource stands apart. `groups` are those of the user."""

    stage: str
    verb: str
    path: str
    user: str
    user_agent: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    code: int
    groups: tuple[str, ...] = ()

    @classmethod
    def of(cls, raw: dict[str, Any]) -> AuditEvent:
        target = raw.get("objectRef", {})
        return cls(
            stage=raw["stage"],
            verb=raw["verb"],
            path=raw["requestURI"],
            user=raw.get("user", {}).get("username", ""),
            user_agent=raw.get("userAgent", ""),
            group=target.get("apiGroup", ""),
            resource=target.get("resource", ""),
            subresource=target.get("subresource", ""),
            namespace=target.get("namespace", ""),
            name=target.get("name", ""),
            code=raw.get("responseStatus", {}).get("code", 0),
            groups=tuple(raw.get("user", {}).get("groups", ())),
        )


@dataclass(frozen=True)
class AuditLog:
    """The audit log of one cluster."""

    path: Path

    def mark(self) -> int:
        """A place in the log: everything the server answers from now on comes after it."""
        return self.path.stat().st_size if self.path.exists() else 0

    def events(
        self,
        *,
        since: int = 0,
        user_agent: str | None = None,
        verb: str | None = None,
        resource: str | None = None,
        user: str | None = None,
        stages: Iterable[str] = (COMPLETE,),
    ) -> Iterator[AuditEvent]:
        """Requests since a mark; `user_agent` is a prefix.

        By default each request counts once, when it is answered. A watch is answered when it ends: to see the open
        ones too, ask for `stages=(STARTED, COMPLETE)`.
        """
        wanted = set(stages)
        for event in self._read(since, containing=(user_agent or "").encode()):
            if (
                event.stage in wanted
                and (user_agent is None or event.user_agent.startswith(user_agent))
                and verb in (None, event.verb)
                and resource in (None, event.resource)
                and user in (None, event.user)
            ):
                yield event

    def _read(self, since: int, *, containing: bytes) -> Iterator[AuditEvent]:
        if not self.path.exists():
            return
        with self.path.open("rb") as stream:
            # The server may have been in the middle of a line at the mark. That request was answered before.
            stream.seek(max(0, since - 1))
            if since and stream.read(1) != b"\n" and not stream.readline().endswith(b"\n"):
                return
            for line in stream:
                # The server may be in the middle of its last line. The next read would then return the rest of it as a line.
                if not line.endswith(b"\n"):
                    return
                # The kernel cuts the line that a killed server writes, at the end of a page. The next server's first line then follows
                # on the same line. The request of the cut line is lost.
                whole = line[max(0, line.rfind(BEGIN)) :]
                # Most lines are of others; decoding them all takes long.
                if containing in whole:
                    yield AuditEvent.of(json.loads(whole))
