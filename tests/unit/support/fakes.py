# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""API servers in memory, for changes and refusals between two requests, which the lab cannot produce on demand."""

from __future__ import annotations

import copy
import json
import time
import typing as t
from collections.abc import MutableMapping

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ConflictError,
    KubeError,
    NotFoundError,
    PatchTestError,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    WORKLOADS,
    Resource,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.coordination import ConfigMap, Event
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.namespace import Namespace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.common.leader_lease import LeaseLostError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue import run
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.controller import RescueController
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.environment import RescueEnvironment, RescueObserver
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.task import RescueTask
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions, RescueRequest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import holds_in
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.rescue_attempts import AttemptRecord, attempt_key
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import OUTCOME_ANNOTATION

from tests.unit.support.cluster import ClusterBuilder, snapshot_of, struct
from tests.unit.support.objects import CRITICAL, TOLERATION, Json, named_pod_json, small_node_json

Meddler = t.Callable[[Json], None]


class FakeApi(KubeApi):
    """A ``KubeApi`` without a server, on the objects of a ClusterBuilder and the clock ``now``.

    ``meddlers`` change the object just before the next patches, one each, so that these meet a conflict. Patches that got through are
    kept in ``patches``, the names of listed resources in ``listed``. ``answers_lost``: what meets a conflict had been sent before.
    """

    def __init__(self, cluster: ClusterBuilder, *, now: float, meddlers: t.Sequence[Meddler] = (), answers_lost: bool = False) -> None:
        self._cluster = cluster
        self._now = now
        self._meddlers = list(meddlers)
        self._answers_lost = answers_lost
        self._objects = {
            (workload.kind, workload.metadata.name): json.loads(encode_json(workload))
            for workload in (*cluster.deployments, *cluster.stateful_sets)
        }
        self.patches: list[Json] = []
        self.tried = 0
        self.listed: list[str] = []

    @property
    def server_version(self) -> str:
        return ""

    def now_s(self) -> float:
        return self._now

    def list_all(self, resource: Resource, *, namespace: str = "", label_selector: str = "", **_how: t.Any) -> list[t.Any]:
        self.listed.append(resource.plural)
        collections: dict[str, list[t.Any]] = {
            "nodes": self._cluster.nodes,
            "pods": self._cluster.pods,
            "namespaces": self._cluster.namespaces,
            "replicasets": self._cluster.replica_sets,
            "poddisruptionbudgets": self._cluster.budgets,
            "resourcequotas": self._cluster.quotas,
            "limitranges": self._cluster.limit_ranges,
        }
        if resource in WORKLOADS.values():
            return [self._struct(resource, name) for kind, name in self._objects if kind == resource.kind]
        return list(collections.get(resource.plural, ()))

    def get(self, resource: Resource, namespace: str, name: str) -> t.Any:
        if resource is NAMESPACES:
            unlabelled = struct(Namespace, {"metadata": {"name": name}})
            return next((found for found in self._cluster.namespaces if found.metadata.name == name), unlabelled)
        return self._struct(resource, name)

    def get_bytes(self, resource: Resource, namespace: str, name: str) -> bytes:
        return json.dumps(self._objects[resource.kind, name]).encode()

    def merge_patch(self, resource: Resource, namespace: str, name: str, patch: Json, *, dry_run: bool = False) -> t.Any:
        self.tried += 1
        kept = self._objects[resource.kind, name]
        if self._meddlers:
            self._meddlers.pop(0)(kept)
            kept["metadata"]["resourceVersion"] = f"{self.tried}"
        if patch["metadata"].get("resourceVersion", "") != kept["metadata"].get("resourceVersion", ""):
            conflict = ConflictError(f"cannot patch {name}", status=409)
            conflict.repeated = self._answers_lost
            raise conflict
        self.patches.append(patch)
        changed = _merged(kept, patch)
        if not dry_run:
            self._objects[resource.kind, name] = changed
        return resource.decode(json.dumps(changed).encode())

    def create_event(self, namespace: str, event: Json) -> None:
        pass

    def outcome_of(self, name: str, kind: str = "Deployment") -> str | None:
        """The outcome annotation of a workload."""
        annotation: str | None = (self._objects[kind, name]["metadata"].get("annotations") or {}).get(OUTCOME_ANNOTATION)
        return annotation

    def _struct(self, resource: Resource, name: str) -> t.Any:
        return resource.decode(json.dumps(self._objects[resource.kind, name]).encode())


def _merged(target: Json, patch: Json) -> Json:
    """RFC 7386."""
    result = copy.deepcopy(target)
    for key, value in patch.items():
        result[key] = _merged(result.get(key) or {}, value) if isinstance(value, dict) else value
    return {key: value for key, value in result.items() if value is not None}


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


Refusal = t.Callable[..., KubeError | None]


def node(name: str, *, cpu: str = "1") -> Json:
    """A ready node."""
    return small_node_json(name, cpu=cpu, uid=f"n-{name}")


def pod(name: str, cpu: str, *, on: str = "", priority: int = 0, owner: str = "", tolerates: bool = True) -> Json:
    """A running pod, or without a node a critical one that the scheduler has reported Unschedulable; ``tolerates``: the taint of a hold."""
    more: Json = {"owner": owner, "owner_uid": f"o-{owner or name}", "metadata": {"uid": f"u-{name}"}}
    if on:
        return named_pod_json(name, cpu, on=on, priority=priority, **more)
    tolerations = [TOLERATION] if tolerates else []
    return named_pod_json(name, cpu, priority=priority or CRITICAL, tolerations=tolerations, conditions=[UNSCHEDULABLE], **more)


class Cluster:
    """API server and watch cache in one.

    ``refuse_eviction(name, dry_run)`` and ``refuse_patch(name of node or pod, release)`` may return an error.
    """

    def __init__(self, nodes: t.Sequence[Json], pods: t.Sequence[Json]) -> None:
        self.nodes = {item["metadata"]["name"]: item for item in nodes}
        self.pods = {item["metadata"]["name"]: item for item in pods}
        self.refuse_eviction: Refusal = lambda _name, _dry_run: None
        self.refuse_patch: Refusal = lambda _name, _release: None
        self.refuse_get: Refusal = lambda _plural, _name: None
        # What the API server knows of an object and the watch does not show yet, by name.
        self.hidden: dict[str, Json] = {}
        self.evicted: list[str] = []
        self.patches = 0
        self._written = 0
        for item in [*nodes, *pods]:
            self.touch(item)
        self.events: list[str] = []
        self.errors: dict[str, str] = {}
        self.silent: dict[str, float] = {}
        self.version = 0
        self.broken: KubeError | None = None
        # The last states of pods that the watch has shown as deleted, by uid, and the uids that are to be kept.
        self.deleted: dict[str, Json] = {}
        self.kept: frozenset[str] = frozenset()
        # Events that others have written about pods: uid, reason and time.
        self.told: list[tuple[str, str, str]] = []
        self.refuse_events: KubeError | None = None

    # --- as the watch cache ---

    def snapshot(self) -> ClusterSnapshot:
        if self.broken is not None:
            raise self.broken
        nodes = [decode_json(Node, encode_json(item)) for item in self.nodes.values()]
        return snapshot_of(nodes=nodes, pods=[decode_json(Pod, encode_json(item)) for item in self.pods.values()])

    def pod(self, uid: str) -> Pod | None:
        found = [item for item in self.pods.values() if item["metadata"]["uid"] == uid]
        return decode_json(Pod, encode_json(found[0])) if found else None

    def wait_for_change(self, since_version: int, timeout_s: float) -> int:
        end_at_s = time.monotonic() + timeout_s
        while self.version == since_version and time.monotonic() < end_at_s:
            time.sleep(0.01)
        return self.version

    def unschedulable_since(self, _uid: str) -> float:
        return time.time() - 60

    def retain_deleted(self, uids: t.Iterable[str]) -> None:
        self.kept = frozenset(uids)

    def last_state(self, uid: str) -> Pod | None:
        item = self.deleted.get(uid) if uid in self.kept else None
        return decode_json(Pod, encode_json(item)) if item is not None else None

    def assume_terminating(self, uid: str, deletion_timestamp: str = "") -> None:
        for item in self.pods.values():
            if item["metadata"]["uid"] == uid:
                item["metadata"]["deletionTimestamp"] = deletion_timestamp or format_time(time.time() + 1)

    # --- as the API ---

    def now_s(self) -> float:
        return time.time()

    def get(self, resource: t.Any, _namespace: str, name: str) -> t.Any:
        if resource is CONFIG_MAPS:
            return ConfigMap()
        error = self.refuse_get(resource.plural, name)
        if error is not None:
            raise error
        item = {"pods": self.pods, "nodes": self.nodes}.get(resource.plural, {}).get(name)
        if item is None:
            raise NotFoundError(f"there is no {resource.role_name} {name}", status=404)
        return resource.decode(encode_json({**item, **self.hidden.get(name, {})}))

    def merge_patch(self, resource: t.Any, _namespace: str, _name: str, _patch: Json, *, dry_run: bool = False) -> None:
        assert resource is CONFIG_MAPS and dry_run

    def events_on(self, _namespace: str, uid: str, *, reason: str) -> list[Event]:
        if self.refuse_events is not None:
            raise self.refuse_events
        return [Event(reason=said, last_timestamp=time) for about, said, time in self.told if (about, said) == (uid, reason)]

    def create_event(self, _namespace: str, event: Json) -> None:
        self.events.append(event["reason"])

    def evict(self, _namespace: str, name: str, *, uid: str, dry_run: bool, grace_period_s: int) -> None:
        assert self.pods[name]["metadata"]["uid"] == uid and grace_period_s == 1
        error = self.refuse_eviction(name, dry_run)
        if error is not None:
            raise error
        if not dry_run:
            self.evicted.append(name)

    def get_plain(self, _resource: t.Any, _namespace: str, name: str) -> Json:
        if name not in self.nodes:
            raise NotFoundError(f"nodes {name} not found", status=404)
        found: Json = json.loads(json.dumps(self.nodes[name]))
        return found

    def json_patch(self, resource: t.Any, _namespace: str, name: str, operations: list[Json], *, dry_run: bool = False) -> None:
        self.patches += 1
        error = self.refuse_patch(name, any(operation["op"] == "remove" for operation in operations))
        if error is not None:
            raise error
        document = (self.nodes if resource.plural == "nodes" else self.pods).get(name)
        if document is None:
            raise NotFoundError(f"{name} is not there", status=404)
        for operation in operations if not dry_run else ():
            self._apply(document, operation)
        if not dry_run:
            self.touch(document)

    def touch(self, document: Json) -> None:
        """It is another version of itself."""
        self._written += 1
        document["metadata"]["resourceVersion"] = str(self._written)

    def _apply(self, document: Json, operation: Json) -> None:
        *parents, last = (part.replace("~1", "/") for part in operation["path"].split("/")[1:])
        for part in parents:
            document = document[part]
        if operation["op"] == "test" and last in ("nominatedNodeName", "nodeName") and (document.get(last) or None) != operation["value"]:
            raise PatchTestError("it is not as it was read", status=422)
        if operation["op"] == "add":
            document[last] = operation["value"]
        elif operation["op"] == "remove":
            del document[last]

    @property
    def held(self) -> list[str]:
        return [name for name, item in self.nodes.items() if holds_in(item)]


class Lease:
    """Held until it is lost."""

    def __init__(self) -> None:
        self.held = True
        self.holder = "test"

    def ensure_held(self) -> None:
        if not self.held:
            raise LeaseLostError("lost")

    def acquire(self, _timeout_s: float) -> bool:
        return self.held

    def release(self) -> None:
        self.held, self.holder = False, ""

    def abandon(self) -> None:
        self.held = False


class Kept(MutableMapping[str, AttemptRecord]):
    """The entries of attempts in the ConfigMap, by key."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts

    def __getitem__(self, key: str) -> AttemptRecord:
        return decode_json(AttemptRecord, self._texts[key])

    def __setitem__(self, key: str, entry: AttemptRecord) -> None:
        self._texts[key] = entry.to_text()

    def __delitem__(self, key: str) -> None:
        del self._texts[key]

    def __iter__(self) -> t.Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


class Attempts:
    """The ConfigMap with the attempts, as a ``ConfigMapStore``."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self.kept = Kept(self._texts)

    def read(self) -> dict[str, str]:
        return dict(self._texts)

    def update(self, change: t.Callable[[t.Mapping[str, str]], t.Mapping[str, str | None]]) -> dict[str, str]:
        for key, text in change(dict(self._texts)).items():
            if text is None:
                del self._texts[key]
            else:
                self._texts[key] = text
        return dict(self._texts)


def retry_now(on: Scene) -> None:
    """The pause after a write of a hold that failed is over."""
    on.controller.holds._retry_at_s = 0.0


def end_settling(task: RescueTask) -> None:
    """The settle time of the scheduler is over."""
    task.settles_at_s = 0.0


def end_waits(task: RescueTask) -> None:
    """Each wait for other pods has lasted for its maximum time."""
    task.max_wait_s = -1.0


def key_of(document: Json) -> str:
    """The key of the pod's owner in the ConfigMap."""
    return attempt_key(decode_json(Pod, encode_json(document)))


class Notes(RescueObserver):
    """An observer that records the errors."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def on_error(self, what: str) -> None:
        self.errors.append(what)


class Scene(t.NamedTuple):
    """A rescuer and what it works on."""

    controller: RescueController
    cluster: Cluster
    lease: Lease
    attempts: Attempts
    notes: Notes


def end_of(on: Scene, clock: run._Clock, *, wait: bool = True, dry_run: bool = False) -> run.End | None:
    """The end of a run on the scene now, or None if it continues."""
    return run.end_of_run(on.controller, clock, wait=wait, dry_run=dry_run)


def run_on(on: Scene, *, wait: bool = True, dry_run: bool = False, **options: t.Any) -> RescueController:
    """A whole run on the scene, with a time limit of a second unless given."""
    request = RescueRequest(RescueOptions(**{"settle_time_s": 0, "wait_timeout_s": 1, **options}), wait=wait, dry_run=dry_run)
    run._rescue(on.controller, request)
    return on.controller


def nominated(on: Scene) -> str:
    """The node for which the pod ``dns`` is nominated; empty for none."""
    name: str = on.cluster.pods["dns"]["status"].get("nominatedNodeName", "")
    return name


def clear_nomination(on: Scene) -> None:
    """The scheduler has tried the pod ``dns`` without success."""
    on.cluster.pods["dns"]["status"].pop("nominatedNodeName", None)
    on.cluster.touch(on.cluster.pods["dns"])


def again(on: Scene, **options: t.Any) -> RescueController:
    """Another program on the same cluster."""
    return RescueController(environment_of(on.cluster, on.lease, on.notes, writer="next", **options), t.cast(t.Any, on.attempts))


def environment_of(
    cluster: Cluster, lease: Lease, notes: Notes, *, writer: str, dry_run: bool = False, **options: t.Any
) -> RescueEnvironment:
    """The environment of a program on a cluster in memory."""
    fake: t.Any = cluster
    return RescueEnvironment(
        fake,
        fake,
        RescueOptions(**{"settle_time_s": 0, **options}),
        lease=t.cast(t.Any, lease),
        observer=notes,
        writer=writer,
        dry_run=dry_run,
    )


def scene(
    nodes: t.Sequence[Json],
    pods: t.Sequence[Json],
    *,
    once: bool = True,
    dry_run: bool = False,
    notes: Notes | None = None,
    **options: t.Any,
) -> Scene:
    """A rescuer on a cluster in memory."""
    cluster, lease, attempts, notes = Cluster(nodes, pods), Lease(), Attempts(), notes or Notes()
    environment = environment_of(cluster, lease, notes, writer="test", dry_run=dry_run, **options)
    controller = RescueController(environment, t.cast(t.Any, attempts), once=once)
    return Scene(controller, cluster, lease, attempts, notes)


def full_nodes(*names: str, tolerates: bool = True, **options: t.Any) -> Scene:
    """Full nodes, the first the cheapest, and one critical pod. ``tolerates``: the pod tolerates the taint of a hold."""
    victims = [pod(f"v-{name}", "900m", on=name, priority=number) for number, name in enumerate(names)]
    return scene([node(name) for name in names], [*victims, pod("dns", "500m", tolerates=tolerates)], **options)


def under_way(on: Scene) -> list[str]:
    """The pods whose rescue is under way by the ConfigMap."""
    return [uid for entry in on.attempts.kept.values() for uid in entry.under_way]
