# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans and makes the rescue of one random cluster, and compares what it says and does with the contract."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.snapshot_reader import read_snapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod

from lab.audit import AuditEvent
from tests.integration.rescue.brute_force import CRITICAL_FROM, World
from tests.integration.rescue.random_scene import RandomScene
from tests.integration.rescue.rescues import Rescues
from tests.integration.rescue.scene import SCENE_LABEL, SYSTEM

Json = dict[str, Any]

WAIT_TIMEOUT_S = 15
STATES_TRIED = 20
STATE_PAUSE_S = 0.5
TOO_MANY_REQUESTS = 429
NOTHING = "none"
FITS = ("fits", "capacity_becoming_free")
LOST = "lost to pods that do not tolerate the taint"
LOST_OTHERWISE = "lost with hold none, or to pods that tolerate the taint"
AGENT = "onprem.kube_scheduling/k8s_critical_rescue"


class RescueCheck:
    """One case. ``problems``: what was wrong; ``seen``: the results of its pods."""

    def __init__(self, scene: RandomScene, rescues: Rescues, api: KubeApi) -> None:
        self.scene = scene
        self.problems: list[str] = []
        self.seen: Counter[str] = Counter()
        self._rescues, self._api = rescues, api
        self._options = scene.task.options
        self._recorded: frozenset[str] = frozenset()

    def run(self) -> None:
        """Plan, rescue, look."""
        scene = self.scene
        scene.begin_leaving()
        before = self._world()
        scene.mark = scene.cluster.audit().mark()
        plan = self._run(check_mode=True)
        if scene.evictions():
            self._wrong(f"a plan has evicted {scene.evictions()}")
        done = self._run()
        after = self._world()
        before.rescued = after.rescued = self._rescued(done)
        # A later run knows only the rescues in the ConfigMap, not the pods that the scheduler has bound by itself.
        self._recorded = frozenset(name for name, row in done.items() if row["status"] == "rescued" and row["victims"])
        self._check_rows(before, plan, done)
        for row in done.values():
            self._check_row(row, plan, before, after)
        self._check_requests(done)
        self._check_minimal(before, after, list(done.values()))
        for name, (taints, now) in scene.changed_nodes().items():
            self._wrong(f"node {name} is held, or its taints are another: {now} instead of {taints}")

    def _run(self, **how: Any) -> dict[str, Json]:
        """The module's rows, by name."""
        asked = {"label_selector": f"{SCENE_LABEL}={self.scene.id}", "wait_timeout": WAIT_TIMEOUT_S, **self._options}
        return {row["name"]: row for row in self._rescues.run(**asked, **how)["pods"]}

    def _world(self) -> World:
        return World(read_snapshot(self._api, kinds=(), pending_pods=True), self._options)

    def _rescued(self, done: dict[str, Json]) -> frozenset[str]:
        """The critical pods that were bound during the run."""
        return frozenset(name for name, row in done.items() if row["status"] == "rescued" or self.scene.bound_to(name))

    def _wrong(self, text: str) -> None:
        self.problems.append(text)

    # --- what is said -----------------------------------------------------------------------------------------------------

    def _check_rows(self, before: World, plan: dict[str, Json], done: dict[str, Json]) -> None:
        for name in self.scene.critical_names():
            pod = _pod(before, name)
            wanted = not pod.spec.node_name and before.priority(pod) >= CRITICAL_FROM
            if wanted != (name in plan):
                self._wrong(f"{name} is {'not ' if wanted else ''}in the plan")
            if name not in done:
                self.seen["placed by the scheduler" if self.scene.bound_to(name) else "not critical"] += 1

    def _check_row(self, row: Json, plan: dict[str, Json], before: World, after: World) -> None:
        name, status, node = row["name"], row["status"], self.scene.bound_to(row["name"])
        planned = plan.get(name)
        self.seen[status] += 1
        self._check_takers(row, before)
        if status == "failed" and self._was_taken(row, before, after):
            self.seen[LOST_OTHERWISE] += 1
            print(f"seed {self.scene.task.seed} has lost a node with hold {self._options['hold']}: {row}")
        elif planned is not None and self._was_taken_before_evictions(row, planned, before, after):
            self.seen[LOST_OTHERWISE] += 1
            print(f"seed {self.scene.task.seed} has lost node {planned['node']} before any eviction: {row}")
        elif self._another_was_first(row, plan, after):
            self.seen["another one first"] += 1
        elif planned is not None and planned["status"] == "planned" and status != "rescued":
            self._wrong(f"{name} was planned ({planned['message']}), and then {status}: {row['message']}")
        elif status == "rescued" and (not node or row["node"] != node):
            self._wrong(f"{name} is rescued on {row['node']!r}, and bound to {node!r}")
        elif status == "impossible":
            found = None if node else after.solution(_pod(after, name), self.scene.node_names)
            if found and not row["victims"] and self._agrees_now(name):
                self.seen["possible later"] += 1
            elif node or row["victims"] or found:
                self._wrong(f"{name} is impossible ({row['message']}), node {node!r}, victims {row['victims']}; brute force: {found}")
        elif status != "rescued":
            self._wrong(f"{name} is {status}: {row['message']}")
        self._check_victims(row, before)

    def _agrees_now(self, name: str) -> bool:
        """The plan for this pod alone is impossible exactly if brute force finds no evictions in the state that the plan was made in.

        Replacements have come, budgets have recovered, and nodes were released, since the run said that no eviction helps. A plan for all
        pods would reserve the capacity for another critical pod, and brute force knows one pod only. While replacements still come, the
        states before and after the plan are different, and it is made again.
        """
        for _attempt in range(STATES_TRIED):
            earlier = self._world()
            rows = self._run(check_mode=True, name=name)
            now = self._world()
            of = self.scene.node_names, self.scene.namespace
            if earlier.fingerprint(*of) == now.fingerprint(*of):
                now.rescued = self._recorded
                return (rows[name]["status"] == "impossible") == (now.solution(_pod(now, name), self.scene.node_names) is None)
            time.sleep(STATE_PAUSE_S)
        return False

    def _was_taken(self, row: Json, before: World, after: World) -> bool:
        """The node was lost as nothing could prevent: nobody asked for a hold, or a pod that tolerates the taint was bound to it.

        Where a taint kept the node, that was another critical pod, and the end has to be final: no evictions on other nodes would have
        helped. A node on which evictions had no effect is not tried again.
        """
        pod = _pod(before, row["name"])
        evicted = [before.find(victim["namespace"], victim["name"]) for victim in row["victims"]]
        nodes = {victim.spec.node_name for victim in evicted if victim is not None} - {""}
        # Where every victim has come, or was placed, during the run nobody knows the node any more.
        kept = [before.keeps(before.snapshot.nodes[name], pod) for name in nodes or self.scene.node_names]
        if not any(kept) or (not nodes and not all(kept)):
            return self._options["hold"] == NOTHING or any(self._takers(row, before, tolerating=True).values())
        others = {self.scene.bound_to(name) for name in self.scene.critical_names() if not _pod(before, name).spec.node_name}
        others |= set(self._takers(row, before, tolerating=True))  # also the replacement of a critical pod
        left = [name for name in self.scene.node_names if name not in nodes]
        return bool(nodes & others) and after.solution(pod, left, evicted=len(evicted)) is None

    def _was_taken_before_evictions(self, row: Json, planned: Json, before: World, after: World) -> bool:
        """Nobody asked for a hold, and another pod came to the planned node before the first eviction there."""
        if (planned["status"], row["status"]) != ("planned", "impossible"):
            return False
        return self._options["hold"] == NOTHING and not row["victims"] and bool(_new_pods({**row, "node": planned["node"]}, before, after))

    def _another_was_first(self, row: Json, plan: dict[str, Json], after: World) -> bool:
        """Another critical pod has got the planned node, because pods have ended since the plan. No evictions help this one then.

        The plan must not have said that the other pod fits there without evictions: then this one would have to wait.
        """
        planned = plan.get(row["name"])
        if planned is None or (planned["status"], row["status"]) != ("planned", "impossible"):
            return False
        if row["victims"] or not any(group.leaving for group in self.scene.task.groups):
            return False
        there = [other for name, other in plan.items() if self.scene.bound_to(name) == planned["node"]]
        is_known = any(other["reason"] in FITS for other in there)
        return bool(there) and not is_known and after.solution(_pod(after, row["name"]), self.scene.node_names) is None

    def _check_takers(self, row: Json, before: World) -> None:
        """Count the nodes whose capacity was lost to a pod that does not tolerate the taint, whatever became of the critical pod later."""
        if self._options["hold"] == NOTHING:
            return
        for node, names in self._takers(row, before, tolerating=False).items():
            self.seen[LOST] += 1
            print(f"seed {self.scene.task.seed} has lost node {node} to {names}, hold {self._options['hold']}: {row}")

    def _takers(self, row: Json, before: World, *, tolerating: bool) -> dict[str, list[str]]:
        """The nodes whose capacity was lost, with the pods that have taken it and that tolerate the taint, or do not.

        The node was held, by the taint and the nomination or by the nomination alone. A victim was evicted from it. Before it was released
        and before the critical pod was bound to any node, the scheduler bound another pod to it; the critical pod has no place there now.
        """
        node_of = {
            **self.scene.scheduled(),
            **{pod.metadata.name: pod.spec.node_name for pod in before.snapshot.pods if pod.spec.node_name},
        }
        victims = {victim["name"] for victim in row["victims"]}
        held: set[str] = set()
        cleared: set[str] = set()
        takers: dict[str, list[str]] = {}
        for event in self.scene.written():
            if event.resource == "nodes" and event.verb == "patch" and event.user_agent.startswith(AGENT):
                held ^= {event.name}  # it is held by the first patch, and released by the next one
                cleared &= held
            elif event.subresource == "eviction" and event.name in victims:
                cleared |= {node_of[event.name]} & held
            elif event.subresource == "binding" and event.name == row["name"]:
                break
            elif (node := node_of.get(event.name)) in cleared and self._is_taken_by(event, tolerating):
                takers.setdefault(node, []).append(event.name)
        return {node: names for node, names in takers.items() if node != node_of[row["name"]]}

    def _is_taken_by(self, event: AuditEvent, tolerating: bool) -> bool:
        """The scheduler has bound a pod that tolerates the taint, or does not."""
        return event.subresource == "binding" and self.scene.tolerates_hold(event.namespace, event.name) == tolerating

    def _check_victims(self, row: Json, before: World) -> None:
        most = self._options["max_victims"]
        if most is not None and len(row["victims"]) > most:
            self._wrong(f"{row['name']} has {len(row['victims'])} victims, and may have {most}")
        pod = _pod(before, row["name"])
        for victim in row["victims"]:
            there = before.find(victim["namespace"], victim["name"])
            self.seen["replacements evicted"] += there is None
            if there is not None and (there.terminating or not before.may_go(there, pod)):
                self._wrong(f"{victim['name']} is a victim, and never may be one")

    # --- what was done ----------------------------------------------------------------------------------------------------

    def _check_requests(self, done: dict[str, Json]) -> None:
        events = self.scene.cluster.audit().events(since=self.scene.mark, verb="create", resource="pods")
        ours = [event for event in events if event.subresource == "eviction" and event.namespace in (self.scene.namespace, SYSTEM)]
        refused = [event for event in ours if event.code == TOO_MANY_REQUESTS]
        if refused:
            self._wrong(f"refused by budgets: {[(event.name, event.path.rpartition('?')[2]) for event in refused]}")
        evicted = sorted(event.name for event in ours if event.code == 201 and "dryRun" not in event.path)
        reported = sorted(victim["name"] for row in done.values() for victim in row["victims"])
        if evicted != reported:
            self._wrong(f"evicted {evicted}, reported {reported}")
        self.seen["evictions"] += len(evicted)

    def _check_minimal(self, before: World, after: World, rows: list[Json]) -> None:
        """With any one victim restored, and everything else as it is in the end, the pod does not fit.

        Checked only if no pod can have the capacity of another one: with one pod, or if a separate node was cleared for each.
        """
        rescued = [row for row in rows if row["status"] == "rescued" and row["victims"]]
        nodes = [row["node"] for row in rows if row["node"]]
        if not rescued or len(nodes) != len(set(nodes)):
            return
        victims = {row["name"]: [before.find(v["namespace"], v["name"]) for v in row["victims"]] for row in rescued}
        if any(pod is None or pod.spec.node_name != row["node"] for row in rescued for pod in victims[row["name"]]):
            return
        self.seen["minimal"] += 1
        for row in rescued:
            pod = _pod(before, row["name"])
            gone = [victim for victim in victims[row["name"]] if victim is not None]
            if not before.fits(pod, row["node"], gone):
                self._wrong(f"{row['name']} would not fit on {row['node']} without its victims")
            for kept in gone:
                if not before.fits(pod, row["node"], [victim for victim in gone if victim is not kept]):
                    continue
                if _new_pods(row, before, after):
                    self.seen["capacity taken before"] += 1
                else:
                    self._wrong(f"{kept.metadata.name} was evicted for {row['name']} without effect")


def _new_pods(row: Json, before: World, after: World) -> list[str]:
    """The other pods that are on the node since then, such as replacements of other victims: their capacity was not available."""
    there = {pod.metadata.uid for pod in before.snapshot.pods_by_node.get(row["node"], ())}
    now = after.snapshot.pods_by_node.get(row["node"], ())
    return [pod.metadata.name for pod in now if pod.metadata.uid not in there and pod.metadata.name != row["name"]]


def _pod(world: World, name: str) -> Pod:
    found = world.find(SYSTEM, name)
    assert found is not None, name
    return found
