# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Random rescues in memory: requests fail, the watch is behind, the Lease changes, programs end, and other clients write."""

from __future__ import annotations

import functools
import json
import typing as t
from concurrent.futures import Future
from contextlib import suppress
from random import Random

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import errors
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.timestamps import format_time
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.common import guarded_patch
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue import controller, decisions, holds, requests, run
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue import scheduler_health as health
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import Hold, hash_of, taint_json

from tests.unit.support import fakes
from tests.unit.support.clock import SetClock
from tests.unit.support.fakes import Attempts, Cluster, Json, Lease, Notes, environment_of, node, pod

USES_TIME = (controller, decisions, holds, requests, run, health, guarded_patch, fakes)
WRITES = ("merge_patch", "json_patch", "update")
LOST = (errors.UnreachableError("broken"), errors.ApiError("failed", status=500), errors.ApiError("late", status=504))
DENIED = errors.ForbiddenError('admission webhook "x" denied the request', status=403)
LACKS_ROLE = errors.ForbiddenError('pods is forbidden: User "me" cannot', status=403)
CONFLICT, BUDGET = errors.ConflictError("changed", status=409), errors.BudgetError("no disruption is allowed", status=429)
FAILED = (
    *LOST,
    DENIED,
    LACKS_ROLE,
    LACKS_ROLE,
    CONFLICT,
    BUDGET,
    errors.OverloadedError("slow", status=429),
    errors.ResponseDecodeError("malformed"),
)
KINDS = ("change_leader", "kill", "end", "end", "end", "taints", "pod", "critical", "node", "webhook")
QUIET_STEPS = 22
KEY = "CriticalAddonsOnly"


class FaultyCluster(Cluster):
    """A cluster whose requests fail before or after they are carried out. ``lease``: of the program that sends requests now."""

    def __init__(self, nodes: list[Json], pods: list[Json], random: Random) -> None:
        super().__init__(nodes, pods)
        self.random, self.lease, self.attempts = random, Lease(), Attempts()
        self.failing, self.lagging, self.slow = map(random.choice, ((0.05, 0.15, 0.3, 0.4), (0, 0, 0.3, 0.7), (0, 0, 0.3, 0.8)))
        self._shown = super().snapshot()
        for api, names in ((self, ("get", "get_plain", "evict", *WRITES[:2])), (self.attempts, ("read", "update"))):
            for name in names:
                setattr(api, name, functools.partial(self._request, name, getattr(api, name)))

    def _request(self, name: str, call: t.Callable[..., t.Any], *args: t.Any, dry_run: bool = False, **options: t.Any) -> t.Any:
        assert name not in WRITES or dry_run or self.lease.held, "a write without the Lease"
        drawn = self.random.random()
        if drawn < self.failing / 2:
            raise self.random.choice(FAILED)
        answer = call(*args, **options, **({"dry_run": True} if dry_run else {}))
        if drawn < self.failing:
            raise self.random.choice(LOST)
        return answer

    def snapshot(self) -> ClusterSnapshot:
        if self.random.random() >= self.lagging:
            self._shown = super().snapshot()
        return self._shown

    def evict(self, _namespace: str, name: str, *, uid: str, grace_period_s: int, dry_run: bool = False) -> None:
        found = self.pods.get(name)
        if found is None or found["metadata"]["uid"] != uid:
            raise errors.NotFoundError("gone", status=404)
        if dry_run or "deletionTimestamp" in found["metadata"]:
            return
        victims = [victim.uid for entry in self.attempts.kept.values() for of_pod in entry.victims.values() for victim in of_pod]
        assert self.slow or uid in victims, "an eviction without a record"  # a slow one may be carried out after the attempt
        found["metadata"]["deletionTimestamp"] = format_time(fakes.time.time() + 1)
        found["status"]["conditions"] = [{"type": "DisruptionTarget", "status": "True", "reason": requests.EVICTION_API_REASON}]

    def _apply(self, document: Json, operation: Json) -> None:
        if operation["op"] != "test" or operation["path"].startswith(("/spec/node", "/status")):
            super()._apply(document, operation)


class Program:
    """A program with random options. ``once``: its finished rescues stay finished."""

    def __init__(self, cluster: FaultyCluster, *, once: bool = False, dry_run: bool = False) -> None:
        choice, self.lease, self.once, self.name = cluster.random.choice, Lease(), once, f"program-{cluster.random.random()}"
        self.lease.release()
        options = {"settle_time_s": choice((0, 0, 2)), "wait_timeout_s": choice((3, 20)), "evict_timeout_s": choice((3, 20))}
        options |= {"max_attempts": choice((1, 3)), "hold": choice(("auto", "auto", "taint", "none"))}
        environment = environment_of(cluster, self.lease, Notes(), writer=self.name, dry_run=dry_run, **options)
        self.controller = controller.RescueController(environment, t.cast(t.Any, cluster.attempts), once=once)


class RandomRescues(SetClock):
    """Two programs of which one leads, and a dry run, on a random cluster. It is also the clock and sends the evictions."""

    def __init__(self, seed: int, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.random = random = Random(seed)
        self.hostile, self._unanswered = random.random() < 0.3, list[t.Callable[[], None]]()
        self.critical, pods = [f"d{number}" for number in range(random.randint(1, 3))], []
        names = [f"n{number}" for number in range(random.randint(1, 4))]
        for name in names:
            count = random.randint(1, 3)
            pods += [pod(f"v-{name}-{number}", f"{950 // count}m", on=name, priority=random.randint(0, 3)) for number in range(count)]
        for name in self.critical:
            pods.append(
                pod(name, random.choice(("300m", "500m", "900m")), tolerates=random.random() < 0.7, owner=random.choice(("", "ds")))
            )
        for module in USES_TIME:
            patch.setattr(module, "time", self)
        for key, value in (("run_in_background", self.run_in_background), ("WAIT_FOR_ANSWER_S", 0)):
            patch.setattr(requests, key, value)
        patch.setattr(run, "ASK_AGAIN_S", 1.0)
        self.cluster = FaultyCluster([node(name) for name in names], pods, random)
        self.programs, self.dry_run = [self._program(), self._program()], Program(self.cluster, dry_run=True)
        self.change_leader()

    def time(self) -> float:
        return 1796075000.0 + self.now_s

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.answer(0.1)

    def run_in_background(self, call: t.Callable[[], None]) -> Future[None]:
        future: Future[None] = Future()

        def carry_out() -> None:
            try:
                future.set_result(call())
            except errors.KubeError as error:
                future.set_exception(error)

        self._unanswered.append(carry_out)
        if self.random.random() >= self.cluster.slow:
            self._unanswered.pop()()
        return future

    def answer(self, probability: float = 1) -> None:
        """Carry out evictions that were sent."""
        for call in [call for call in self._unanswered if self.random.random() < probability]:
            self._unanswered.remove(call)
            call()

    def _program(self) -> Program:
        return Program(self.cluster, once=self.random.random() < 0.6)

    def change_leader(self) -> None:
        """Give a program the Lease. The requests of the one before have ended."""
        self.answer()
        self.leader = self.random.choice(self.programs)
        for program in self.programs:
            lost, program.lease.held = program.lease.held and program is not self.leader, program is self.leader
            program.lease.holder = self.leader.name
            if lost and self.random.random() < 0.5:
                program.controller.abandon()

    def kill(self) -> None:
        self.programs[self.programs.index(self.leader)] = self._program()
        self.change_leader()

    def end(self) -> None:
        """End the leading program, sometimes after an error or without the end of its rescues."""
        ending, self.cluster.lease = self.leader.controller, self.leader.lease
        if self.random.random() < 0.3 and ending.finish_evictions(20):
            ending.record_open_attempts()
            ending.keep_holds()
        with suppress(errors.KubeError), run._released_at_the_end(ending, t.cast(t.Any, self.leader.lease)):
            if self.random.random() < 0.3:
                raise LOST[0]
        self.kill()

    def bind(self) -> None:
        """Act as kubelet and scheduler."""
        pods = self.cluster.pods
        for name, found in list(pods.items()):
            if "deletionTimestamp" in found["metadata"] and self.random.random() < 0.5:
                self.cluster.deleted[found["metadata"]["uid"]] = pods.pop(name)
        for found in (pods[name] for name in self.critical if name in pods and self.random.random() < 0.5):
            fits = [] if found["spec"].get("nodeName") else [name for name in self.cluster.nodes if self._fits(found, name)]
            if fits:
                found["spec"]["nodeName"], found["status"]["conditions"] = self.random.choice(fits), []
            elif self.random.random() < 0.3:
                found["status"].pop("nominatedNodeName", None)
            self.cluster.touch(found)

    def _fits(self, found: Json, name: str) -> bool:
        tainted = self.cluster.nodes[name]["spec"].get("taints") and not found["spec"].get("tolerations")
        pods = [found, *(other for other in self.cluster.pods.values() if other["spec"].get("nodeName") == name)]
        cpu = [one["spec"]["containers"][0]["resources"]["requests"]["cpu"] for one in pods]
        return not tainted and sum(int(text.removesuffix("m")) for text in cpu) <= 1000

    def change(self) -> None:
        """Change something, as another client or a fault."""
        random, nodes, pods = self.random, self.cluster.nodes, self.cluster.pods
        (name, other), critical, uid = random.choices(list(nodes), k=2), random.choice(self.critical), f"u-{self.now_s}"
        kind, spec = random.choice([*KINDS, *(("forge", "copy") if self.hostile else ())]), nodes[name]["spec"]
        if kind == "taints":
            spec.pop("taints", None)
        elif kind == "pod":
            pods[uid] = pod(uid, "100m", on=name)
        elif kind == "critical":
            pods[critical] = pod(critical, "500m")
            pods[critical]["metadata"]["uid"] = uid
        elif kind == "node" and len(nodes) > 1:
            del nodes[name]
            self.cluster.pods = {key: found for key, found in pods.items() if found["spec"].get("nodeName") != name}
        elif kind == "webhook":
            self.cluster.refuse_patch = lambda patched, release: DENIED if release and patched == name else None
        elif kind == "copy":
            nodes[other]["metadata"]["annotations"] = dict(nodes[name]["metadata"].get("annotations") or {})
            nodes[other]["spec"]["taints"] = list(spec.get("taints") or ())
            self.kill()
        elif kind == "forge":
            anyone = hash_of(decode_json(Pod, json.dumps(random.choice(list(pods.values())))))
            deadline_s = random.choice((1, int(self.now_s) + 60, 9_999_999_999))
            spec["taints"] = [taint_json(Hold(KEY, random.choice((anyone, "0" * 16)), deadline_s).taint)]
        elif kind != "node":
            getattr(self, kind)()

    def step(self, pause_s: float) -> None:
        for program in (*self.programs, self.dry_run):
            self.cluster.lease = program.lease
            with suppress(errors.KubeError):
                program.controller.reconcile()
        self.bind()
        self.sleep(pause_s)

    def play(self) -> None:
        """Play a run with faults, and then one without them. At its end no node is held."""
        for _step in range(self.random.randint(5, 40)):
            self.step(self.random.choice((0.1, 0.6, 1.1, 2.1, 5.1, 12.0)))
            if self.random.random() < 0.4:
                self.change()
        self.answer()
        self.cluster.slow = self.cluster.failing = self.cluster.lagging = 0
        self.cluster.refuse_patch = lambda _name, _release: None
        self.programs = [Program(self.cluster) if program.once else program for program in self.programs]
        self.change_leader()
        for number in range(2 * QUIET_STEPS):
            if number == QUIET_STEPS:
                self.cluster.pods = {name: found for name, found in self.cluster.pods.items() if name not in self.critical}
            self.step(2.1)
        assert not self.cluster.held, "still held"
