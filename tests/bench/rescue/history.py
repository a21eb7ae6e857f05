# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The changes of pods and their times. A time is the arrival of the watch event, because times in the API have whole seconds only."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lab.cluster import Cluster

Json = dict[str, Any]


@dataclass
class Life:
    """One pod as it was last seen, and the monotonic seconds at which each thing was first seen."""

    pod: Json
    seen: dict[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        found: str = self.pod["metadata"]["name"]
        return found

    @property
    def namespace(self) -> str:
        found: str = self.pod["metadata"]["namespace"]
        return found

    def note(self, event: str, pod: Json, now_at_s: float) -> None:
        """Take over a newer state."""
        self.pod = pod
        signs = {
            "unschedulable": any(entry.get("reason") == "Unschedulable" for entry in pod["status"].get("conditions") or ()),
            "nominated": bool(pod["status"].get("nominatedNodeName")),
            "bound": bool(pod["spec"].get("nodeName")),
            "leaving": "deletionTimestamp" in pod["metadata"],
            "ended": event == "DELETED",
        }
        for sign, is_there in signs.items():
            if is_there:
                self.seen.setdefault(sign, now_at_s)


class PodHistory:
    """Follows all pods from its start on; those that were there and have not changed are not in ``lives``."""

    def __init__(self, cluster: Cluster) -> None:
        self.lives: dict[str, Life] = {}
        self._api = cluster.api
        self._changed = threading.Condition()
        self._broken = ""
        version = self._api.get("/api/v1/pods?limit=1")["metadata"]["resourceVersion"]
        threading.Thread(target=self._follow, args=(f"/api/v1/pods?resourceVersion={version}",), daemon=True).start()

    def wait(self, condition: Callable[[], bool], *, timeout_s: float) -> bool:
        """Until it holds, asked after each change; whether it does. Raises SystemExit where the watch has ended."""
        with self._changed:
            held = self._changed.wait_for(lambda: bool(self._broken) or condition(), timeout_s)
            if self._broken:
                raise SystemExit(f"the watch of pods has ended: {self._broken}")
            return held

    def labelled(self, app: str) -> Life | None:
        """The newest critical pod with this label app."""
        lives = [life for life in self.lives.values() if life.namespace == "kube-system"]
        found = [life for life in lives if (life.pod["metadata"].get("labels") or {}).get("app") == app]
        return found[-1] if found else None

    def has(self, app: str, sign: str) -> bool:
        """Return whether the critical pod with this label app has had this sign."""
        life = self.labelled(app)
        return life is not None and sign in life.seen

    def leaving_since(self, at_s: float) -> list[Life]:
        """The pods outside of kube-system that were seen to begin to leave since then."""
        return [life for life in self.lives.values() if life.namespace != "kube-system" and life.seen.get("leaving", 0.0) >= at_s]

    def all_placed(self) -> bool:
        """Every pod is on a node, and none is leaving."""
        return all("ended" in life.seen or ("bound" in life.seen and "leaving" not in life.seen) for life in self.lives.values())

    def _follow(self, path: str) -> None:
        try:
            for event in self._api.watch(path):
                now_at_s = time.monotonic()
                if event["type"] == "ERROR":
                    break
                self._note(event["type"], event["object"], now_at_s)
            self._end("by the API server")
        except (OSError, http.client.HTTPException) as error:
            self._end(str(error))

    def _note(self, event: str, pod: Json, now_at_s: float) -> None:
        with self._changed:
            life = self.lives.setdefault(pod["metadata"]["uid"], Life(pod))
            life.note(event, pod, now_at_s)
            self._changed.notify_all()

    def _end(self, why: str) -> None:
        with self._changed:
            self._broken = why
            self._changed.notify_all()
