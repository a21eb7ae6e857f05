# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server that keeps the state of agents, and an outcome from which an agent learns."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ConflictError, NotFoundError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import CONFIG_MAPS, LEASES
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import encode_json
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.learned_state import NAME, NAMESPACE
from ansible_collections.onprem.kube_scheduling.services.extender.agents.original.learning import LearningAgent
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Demand, PodView

WAIT_S = 20.0


class Server:
    """A Lease and a ConfigMap, with resource versions. ``refuse`` may return an error for a request."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, t.Any]] = {}
        self.refuse: t.Callable[[str, str], Exception | None] = lambda _verb, _plural: None
        self.before_patch: list[t.Callable[[], None]] = []
        self.patches: list[dict[str, t.Any]] = []
        self._version = 0

    def with_timeouts(self, **_bounds: t.Any) -> Server:
        return self

    def now_s(self) -> float:
        return 1_767_225_600.0

    def get(self, resource: t.Any, namespace: str, name: str) -> t.Any:
        assert (namespace, name) == (NAMESPACE, NAME)
        self._check("get", resource)
        if resource.plural not in self.kept:
            raise NotFoundError("not found", status=404)
        return resource.decode(encode_json(self.kept[resource.plural]))

    def create(self, resource: t.Any, _namespace: str, body: dict[str, t.Any]) -> t.Any:
        self._check("create", resource)
        if resource.plural in self.kept:
            raise ConflictError("it exists", status=409)
        return self._keep(resource, body)

    def merge_patch(self, resource: t.Any, _namespace: str, _name: str, patch: dict[str, t.Any], *, dry_run: bool = False) -> t.Any:
        if resource is CONFIG_MAPS and not dry_run and self.before_patch:
            self.before_patch.pop(0)()
        self._check("patch", resource)
        found = self.kept[resource.plural]
        if patch["metadata"]["resourceVersion"] != found["metadata"]["resourceVersion"]:
            raise ConflictError("changed", status=409)
        if dry_run:
            return resource.decode(encode_json(found))
        if resource is CONFIG_MAPS:
            self.patches.append(patch["data"])
            data = {**found.get("data", {}), **patch["data"]}
            return self._keep(resource, {**found, "data": {key: text for key, text in data.items() if text is not None}})
        return self._keep(resource, {**found, "spec": {**found["spec"], **patch["spec"]}})

    def change_data(self, **data: str) -> None:
        """Write the ConfigMap as another client."""
        found = self.kept[CONFIG_MAPS.plural]
        self._keep(CONFIG_MAPS, {**found, "data": {**found.get("data", {}), **data}})

    @property
    def data(self) -> dict[str, str]:
        return dict(self.kept.get(CONFIG_MAPS.plural, {}).get("data", {}))

    @property
    def holder(self) -> str | None:
        holder: str | None = self.kept.get(LEASES.plural, {}).get("spec", {}).get("holderIdentity")
        return holder

    def _keep(self, resource: t.Any, body: dict[str, t.Any]) -> t.Any:
        self._version += 1
        self.kept[resource.plural] = {**body, "metadata": {**body["metadata"], "uid": "u", "resourceVersion": str(self._version)}}
        return resource.decode(encode_json(self.kept[resource.plural]))

    def _check(self, verb: str, resource: t.Any) -> None:
        error = self.refuse(verb, resource.plural)
        if error is not None:
            raise error


def wait_for(condition: t.Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.005)


def learn(of: LearningAgent, node: str = "n", *, times: int = 1) -> None:
    pod = PodView("default", "web-1", "u", "s", {"app": "web"}, Demand())
    for number in range(times):
        of.observe(pod, node, False, 100.0 + number)
