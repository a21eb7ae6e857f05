# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Random small clusters that are nearly full, critical pods for them, and what a rescue may do there; each seed gives the same data."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

NODE_CPUS = (1000, 1000, 1500)
NODE_MEMORY = 1000
MAX_ON_NODE = 7
PORTS = (9001, 9002)
PRIORITIES = ("", "scene-low", "scene-middle", "scene-never", "scene-high")
CRITICAL_PRIORITIES = ("system-cluster-critical", "system-node-critical")

HOLD_KEY = "CriticalAddonsOnly"
ADMINISTRATORS_TAINT = {"key": HOLD_KEY, "value": "true", "effect": "NoSchedule"}
OTHER_TAINTS = (
    {"key": "example.com/team", "value": "a", "effect": "NoSchedule"},
    {"key": "example.com/team", "value": "a", "effect": "PreferNoSchedule"},
    {"key": HOLD_KEY, "value": "soft", "effect": "PreferNoSchedule"},
)
TOLERATIONS: tuple[tuple[Json, ...], ...] = (
    ({"key": HOLD_KEY, "operator": "Exists"},),
    ({"key": HOLD_KEY, "operator": "Exists"},),
    ({"key": HOLD_KEY, "operator": "Exists"},),
    ({"operator": "Exists"},),
    ({"key": HOLD_KEY, "operator": "Equal", "value": "true", "effect": "NoSchedule"},),
    (),
    ({"key": "example.com/team", "operator": "Exists"},),
)


@dataclass(frozen=True)
class NodeDraft:
    """A node; cpu in millicores, memory in MiB."""

    cpu: int
    memory: int
    taints: tuple[Json, ...]
    cordoned: bool


@dataclass(frozen=True)
class Group:
    """Equal pods, one on each node of ``places`` (positions of nodes, some perhaps more than once).

    ``owner``: ReplicaSet, DaemonSet or nothing. ``leaving``: the grace in seconds that they have left when the rescue begins.
    ``shuns_critical``: they keep critical pods marked "shunned" off their node; ``shunned``: critical pods marked "shy" keep away.
    """

    name: str
    places: tuple[int, ...]
    cpu: int
    memory: int
    owner: str = "ReplicaSet"
    priority: str = ""
    grace: int = 1
    port: int = 0
    volume: Json | None = None
    safe_to_evict: str = ""
    ready: bool = True
    leaving: int = 0
    shuns_critical: bool = False
    shunned: bool = False


@dataclass(frozen=True)
class Budget:
    """So many of the groups' pods may go at first."""

    name: str
    groups: tuple[str, ...]
    allowed: int


@dataclass(frozen=True)
class CriticalPod:
    """``annotated``: critical by the old annotation alone. ``place``: the position of the only node that it selects.

    ``sibling``: the position of a node on which another pod of the same ReplicaSet runs.
    """

    name: str
    cpu: int
    memory: int
    priority: str
    annotated: bool = False
    tolerations: tuple[Json, ...] = ()
    place: int | None = None
    port: int = 0
    shy: bool = False
    shunned: bool = False
    sibling: int | None = None


@dataclass
class RandomCluster:
    """One case. ``options`` are those of k8s_critical_rescue."""

    seed: int
    nodes: list[NodeDraft] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    budgets: list[Budget] = field(default_factory=list)
    critical: list[CriticalPod] = field(default_factory=list)
    options: Json = field(default_factory=dict)


def random_cluster(seed: int) -> RandomCluster:
    """The cluster of a seed."""
    chance = random.Random(seed)
    cluster = RandomCluster(seed)
    cluster.nodes = [_node(chance) for _ in range(chance.randint(1, 4))]
    room = _Room(cluster.nodes)
    for number in range(1 if chance.random() < 0.6 else chance.randint(2, 3)):
        cluster.critical.append(_critical(chance, f"crit{number}", room))
    _occupy(chance, cluster.groups, room)
    cluster.budgets = _budgets(chance, cluster.groups)
    cluster.options = _options(chance)
    return cluster


class _Room:
    """The free capacity and the free ports of the nodes."""

    def __init__(self, nodes: list[NodeDraft]) -> None:
        self.cpu = [node.cpu for node in nodes]
        self.memory = [node.memory for node in nodes]
        self.pods = [MAX_ON_NODE] * len(nodes)
        self.ports: list[set[int]] = [set() for _ in nodes]

    def has(self, place: int, cpu: int, memory: int, port: int) -> bool:
        enough = self.cpu[place] >= cpu and self.memory[place] >= memory and self.pods[place] > 0
        return enough and port not in self.ports[place]

    def take(self, place: int, cpu: int, memory: int, port: int) -> None:
        self.cpu[place] -= cpu
        self.memory[place] -= memory
        self.pods[place] -= 1
        self.ports[place] |= {port} - {0}


def _node(chance: random.Random) -> NodeDraft:
    taints: list[Json] = []
    if chance.random() < 0.2:
        taints.append(ADMINISTRATORS_TAINT)
    if chance.random() < 0.2:
        taints.append(chance.choice(OTHER_TAINTS))
    return NodeDraft(chance.choice(NODE_CPUS), NODE_MEMORY, tuple(taints), cordoned=chance.random() < 0.08)


def _critical(chance: random.Random, name: str, room: _Room) -> CriticalPod:
    annotated = chance.random() < 0.2
    cpu, memory = chance.randrange(300, 901, 100), chance.randrange(100, 701, 100)
    place = chance.randrange(len(room.cpu)) if chance.random() < 0.2 else None
    sibling = None
    if chance.random() < 0.2 and not annotated:
        sibling = chance.randrange(len(room.cpu))
        if room.has(sibling, cpu, memory, 0) and place is None:
            room.take(sibling, cpu, memory, 0)
        else:
            sibling = None
    return CriticalPod(
        name,
        cpu=cpu,
        memory=memory,
        priority="" if annotated else chance.choice(CRITICAL_PRIORITIES),
        annotated=annotated,
        tolerations=chance.choice(TOLERATIONS),
        place=place,
        port=chance.choice(PORTS) if chance.random() < 0.2 and sibling is None else 0,
        shy=chance.random() < 0.2,
        shunned=chance.random() < 0.3,
        sibling=sibling,
    )


# --- who is on the nodes ----------------------------------------------------------------------------------------------


def _occupy(chance: random.Random, groups: list[Group], room: _Room) -> None:
    """Fill all nodes but for little."""
    for _attempt in range(60):
        open_places = [place for place, cpu in enumerate(room.cpu) if cpu >= 100 and room.pods[place]]
        if not open_places:
            return
        _add(chance, groups, room, open_places)


def _add(chance: random.Random, groups: list[Group], room: _Room, open_places: list[int]) -> None:
    first = chance.choice(open_places)
    # The last pod of a node takes all that is left.
    cpu = room.cpu[first] if room.pods[first] == 1 else min(room.cpu[first], chance.randrange(100, 601, 50))
    memory = min(room.memory[first], chance.choice((0, 50, 100, 200, 300)))
    port = chance.choice(PORTS) if chance.random() < 0.15 else 0
    owner = chance.choices(("ReplicaSet", "", "DaemonSet"), (80, 14, 6))[0]
    places: list[int] = []
    wanted = [first] if owner == "DaemonSet" else [first, *chance.choices(open_places, k=chance.randint(0, 2))]
    for place in wanted:
        if room.has(place, cpu, memory, port):
            room.take(place, cpu, memory, port)
            places.append(place)
    if places:
        groups.append(_group(chance, f"g{len(groups)}", tuple(places), owner, cpu, memory, port))


def _group(chance: random.Random, name: str, places: tuple[int, ...], owner: str, cpu: int, memory: int, port: int) -> Group:
    volumes: tuple[Json, ...] = ({"emptyDir": {}}, {"hostPath": {"path": "/var/lib/scene"}})
    return Group(
        name,
        places,
        cpu,
        memory,
        owner=owner,
        priority=chance.choice(CRITICAL_PRIORITIES) if chance.random() < 0.12 else chance.choice(PRIORITIES),
        grace=chance.choices((1, 2, 30), (70, 20, 10))[0],
        port=port,
        volume=chance.choice(volumes) if chance.random() < 0.1 else None,
        safe_to_evict=chance.choice(("false", "false", "true")) if chance.random() < 0.1 else "",
        ready=chance.random() > 0.05,
        leaving=chance.choice((2, 3)) if owner == "" and chance.random() < 0.4 else 0,
        # A DaemonSet's pods are placed by the scheduler, and are to find their place.
        shuns_critical=chance.random() < 0.08 and owner != "DaemonSet",
        shunned=chance.random() < 0.15 and owner != "DaemonSet",
    )


def _budgets(chance: random.Random, groups: list[Group]) -> list[Budget]:
    """Over some of the groups that are not terminating; now and then two over the same."""
    able = [group for group in groups if not group.leaving]
    chance.shuffle(able)
    budgets: list[Budget] = []
    while able and chance.random() < 0.8 and len(budgets) < 4:
        covered = [able.pop() for _ in range(min(len(able), chance.choice((1, 1, 2))))]
        healthy = sum(len(group.places) for group in covered if group.ready)
        allowed = min(healthy, chance.choices((0, 1, 2), (30, 45, 25))[0])
        budgets.append(Budget(f"b{len(budgets)}", tuple(group.name for group in covered), allowed))
        if chance.random() < 0.08:
            budgets.append(Budget(f"b{len(budgets)}", (covered[0].name,), int(covered[0].ready)))
    return budgets


def _options(chance: random.Random) -> Json:
    def rarely() -> bool:
        return chance.random() < 0.25

    return {
        "allow_equal_priority": rarely(),
        "allow_bare_pods": rarely(),
        "allow_local_storage": rarely(),
        "allow_short_grace": rarely(),
        "honor_critical_annotation": "kube-system" if chance.random() > 0.1 else "none",
        "max_victims": chance.choice((None, None, None, None, 1, 2, 3)),
        "hold": chance.choices(("auto", "taint", "none"), (76, 14, 10))[0],
        "grace_period": chance.choice((1, 2)),
    }
