# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls the application without a network."""

from __future__ import annotations

import asyncio
import json
import typing as t
from collections.abc import Mapping, Sequence

from ansible_collections.onprem.kube_scheduling.services.common.health import Health
from ansible_collections.onprem.kube_scheduling.services.common.http.messages import Request, Response
from ansible_collections.onprem.kube_scheduling.services.extender.engine.engine import Engine
from ansible_collections.onprem.kube_scheduling.services.extender.engine.profile import Profile
from ansible_collections.onprem.kube_scheduling.services.extender.engine.recent_pods import RecentPods
from ansible_collections.onprem.kube_scheduling.services.extender.http.app import App
from ansible_collections.onprem.kube_scheduling.services.extender.http.pages.status_api import StatusApi
from ansible_collections.onprem.kube_scheduling.services.extender.http.scheduler_api import SchedulerApi
from ansible_collections.onprem.kube_scheduling.services.extender.metrics import Metrics
from ansible_collections.onprem.kube_scheduling.services.extender.reload_faults import ReloadFaults

from tests.unit.services.extender.extender_objects import PROFILE, engine, pod, quiet_log

JSON_TYPE = ((b"content-type", b"application/json"),)
FILTER, PRIORITIZE, PREEMPT = "/scheduler/filter", "/scheduler/prioritize", "/scheduler/preempt"
VALUES = {"a": 1.0, "b": 6.0, "c": 9.0}


class Answer(t.NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> t.Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Client:
    """An application with these profiles."""

    def __init__(self, *profiles: Profile, scheduler: bool = True) -> None:
        self.metrics, self.health, self.recent = Metrics(quiet_log()), Health(), RecentPods()
        self.engine: Engine = engine(*profiles, metrics=self.metrics)
        self.faults = ReloadFaults()
        status_api = StatusApi(self.engine, self.recent, self.metrics.registry, self.health, self.faults, {"version": "1.2.3"})
        self.api = SchedulerApi(self.engine, self.metrics, self.recent)
        self.app = App(self.api if scheduler else None, status_api, self.metrics, quiet_log())

    def post(self, path: str, body: bytes = b"", headers: Sequence[tuple[bytes, bytes]] = JSON_TYPE) -> Answer:
        return self.call("POST", path, body, headers)

    def get(self, path: str, *, accept: str = "*/*", method: str = "GET") -> Answer:
        return self.call(method, path, headers=[(b"accept", accept.encode())])

    def call(self, method: str, target: str, body: bytes = b"", headers: Sequence[tuple[bytes, bytes]] = ()) -> Answer:
        return asyncio.run(self.ask(method, target, body, headers))

    async def ask(self, method: str, target: str, body: bytes = b"", headers: Sequence[tuple[bytes, bytes]] = ()) -> Answer:
        path, _mark, query = target.partition("?")
        found = self.app.answer(Request(method, path, query.encode(), dict(headers), body))
        response = found if isinstance(found, Response) else await found
        texts = {name.decode(): value.decode() for name, value in response.headers}
        return Answer(response.status, {**texts, "content-type": response.content_type}, response.body)


def preemption(scheduler: str = PROFILE, **violations: int) -> bytes:
    """The body of preempt with a candidate node for each number of violated budgets."""
    victims = {name: {"Pods": [{"UID": f"victim on {name}"}], "NumPDBViolations": number} for name, number in violations.items()}
    return json.dumps({"Pod": pod(scheduler=scheduler), "NodeNameToMetaVictims": victims}).encode()
