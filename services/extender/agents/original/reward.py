# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agent ``reward``: learns on which nodes the pods of a type of workload run well.

Each observation moves the reward of its type and node: new = (1 − rate)·old + rate·result, the result being 1 or 0 (as in kubeRL of
IBM/kube-safe-scheduler). Unlike there, knowledge decays towards the reward of an unknown node, and nodes with few observations get a bonus
(UCB1, Auer et al. 2002), so that a node that had a problem is tried again. Score: 10 times the reward with its bonus, at most 10.
"""

from __future__ import annotations

import math
import threading
import typing as t
from collections import Counter
from collections.abc import Hashable, Sequence

from .....plugins.module_utils.model.codec import DecodeError, Struct, decode_json, encode_json
from ....common.kinds import number
from ...interface import BEST_SCORE, Judgement, NodeView, PodView, Scores
from ..arguments import Seconds
from .learning import LearningAgent

TYPE_LABELS = ("podtype", "app", "name")
"""The labels that tell the type of workload, the first that is present.

Without one of them the type is the name of the pod's controller. The original uses the name of the pod, but the pods of a controller have
different names, so nothing would be learned from them. The name of the pod is used for a pod without a controller.
"""
INITIAL_REWARD = 1.0
UNKNOWN_NODE = BEST_SCORE * INITIAL_REWARD
"""The score of a node without an observation."""
MAX_STATE_BYTES = 512 * 1024
MAX_ENTRIES = 20_000
MAX_TYPE_CHARACTERS = 253
"""The maximum of a name in Kubernetes. The API server does not check the name of an owner, and one long type would fill the saved state."""
STATE_VERSION = 2


class RewardArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``rate``: the weight of a new observation. ``half_life``: the time in which old knowledge loses half of its weight.

    ``exploration``: the weight of the bonus of nodes with few observations; 0 switches it off.
    """

    rate: t.Annotated[float, number(0.001, 1)] = 0.1
    half_life: Seconds = 24 * 3600
    exploration: t.Annotated[float, number(0, 10)] = 0.05


class RewardEntry(t.NamedTuple):
    """The reward of a type of workload on a node, the number of its observations, and the time of the last one.

    Reward and number decay with time.
    """

    reward: float
    observations: float
    at_s: float


class WorkloadType(t.NamedTuple):
    """A type of workload. The pods of other namespaces with the same type are other workloads."""

    namespace: str
    type: str


class SavedEntry(Struct, frozen=True, array_like=True):
    """An entry as it is saved. ``age_s`` is its age at the time of the newest entry, so that equal entries have equal states."""

    namespace: str
    workload: str
    node: str
    reward: float
    observations: float
    age_s: float


class SavedState(Struct, frozen=True):
    """The entries, the newest first."""

    version: int
    entries: tuple[SavedEntry, ...] = ()


class Reward(LearningAgent):
    """Scores nodes by the results of earlier pods of the same type of workload."""

    name = "reward"
    args_type = RewardArgs
    per_demand = True

    def __init__(self, args: RewardArgs) -> None:
        super().__init__(args)
        # Outcomes come in a thread of the sources, and requests in another one.
        self._lock = threading.Lock()
        # By workload, then by node.
        self._entries: dict[WorkloadType, dict[str, RewardEntry]] = {}
        # By namespace, in the order of the observations, the oldest first.
        self._recent: dict[str, dict[tuple[WorkloadType, str], None]] = {}

    def demand_key(self, pod: PodView) -> Hashable:
        """Return the workload. A new observation counts from the next refresh on, and for its node from the next binding there on.

        With a key for each observation, the engine would keep scores that no request uses any more, and calculate them at each binding.
        """
        return workload_of(pod)

    def judge(self, prepared: t.Any, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        """Return the score of the node for the type of the pod. Without a pod the score is that of an unknown node."""
        if pod is None:
            return Judgement(UNKNOWN_NODE, explanation="the score depends on the pod")
        return self.score_all(prepared, [node], pod, now_s)[0]

    def score_all(self, prepared: t.Any, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> Sequence[Judgement]:
        """Return the scores of the nodes for the type of the pod."""
        workload = workload_of(pod)
        known, total = self._known(workload, now_s)
        return [self._judgement(workload.type, known.get(node.name), total) for node in nodes]

    def scores(self, prepared: t.Any, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> Scores:
        """Return the same without texts. Each pod without a controller is a type of its own, so that new types are frequent."""
        known, total = self._known(workload_of(pod), now_s)
        found = {name: self._score(entry, total) for name, entry in known.items()}
        times = [known[node.name].at_s for node in nodes if node.name in known] if known else []
        return Scores([found.get(node.name, UNKNOWN_NODE) for node in nodes], {}, min(times, default=None))

    def _known(self, workload: WorkloadType, now_s: float) -> tuple[dict[str, RewardEntry], float]:
        """Return the decayed entries of the workload by node, and the number of its observations on all nodes."""
        with self._lock:
            entries = dict(self._entries.get(workload, {}))
        known = {node: self._decayed(entry, now_s) for node, entry in entries.items()}
        return known, sum(entry.observations for entry in known.values())

    def _score(self, entry: RewardEntry, total: float) -> float:
        """Return the score of a decayed entry: the reward with the bonus."""
        bonus: float = self.args.exploration * math.sqrt(2.0 * math.log1p(total) / (1.0 + entry.observations))
        return BEST_SCORE * min(1.0, entry.reward + bonus)

    def _judgement(self, workload: str, entry: RewardEntry | None, total: float) -> Judgement:
        if entry is None:
            of = f" of {workload}" if workload else ""
            return Judgement(UNKNOWN_NODE, explanation=f"no observation{of} on this node")
        explanation = f"reward {entry.reward:.2f} of {workload} from {entry.observations:.1f} observations"
        return Judgement(self._score(entry, total), entry.reward, explanation, entry.at_s)

    def observe(self, pod: PodView, node: str, succeeded: bool, at_s: float) -> None:
        """Move the reward of the pod's workload on its node."""
        workload = workload_of(pod)
        with self._lock:
            before = self._entries.get(workload, {}).get(node)
            known = RewardEntry(INITIAL_REWARD, 0.0, at_s) if before is None else self._decayed(before, at_s)
            reward = (1.0 - self.args.rate) * known.reward + self.args.rate * float(succeeded)
            # Observations can arrive in another order than they were made.
            self._put(workload, node, RewardEntry(reward, known.observations + 1.0, max(at_s, known.at_s)))

    def save(self) -> bytes:
        """Return the entries as JSON, the newest first.

        If it would be longer than 512 KiB, the oldest entries of the namespaces with the most entries are left out.
        """
        with self._lock:
            entries = [(workload, node, entry) for workload, by_node in self._entries.items() for node, entry in by_node.items()]
        newest_s = max((entry.at_s for _workload, _node, entry in entries), default=0.0)
        found = [
            SavedEntry(*workload, node, round(entry.reward, 4), round(entry.observations, 2), round(newest_s - entry.at_s, 1))
            for workload, node, entry in entries
        ]
        return encode_json(SavedState(version=STATE_VERSION, entries=tuple(_that_fit(found))))

    def load(self, state: bytes, now_s: float) -> None:
        """Take over saved entries. Raises ValueError if the state cannot be read.

        Their ages count from now on. If the same type and node are known already, the entry with more observations stays.
        """
        try:
            saved = decode_json(SavedState, state)
        except DecodeError as error:
            raise ValueError(f"the saved rewards cannot be read: {error}") from error
        if saved.version != STATE_VERSION:
            raise ValueError(f"the saved rewards have the version {saved.version}, and this program reads version {STATE_VERSION}")
        if not all(_is_valid(one) for one in saved.entries):
            raise ValueError("the saved rewards have numbers outside their ranges")
        with self._lock:
            for one in reversed(saved.entries):
                workload = WorkloadType(one.namespace, one.workload)
                own = self._entries.get(workload, {}).get(one.node)
                if own is None or own.observations < one.observations:
                    self._put(workload, one.node, RewardEntry(one.reward, one.observations, now_s - one.age_s))
            for namespace, recent in self._recent.items():
                in_order = sorted(recent, key=lambda key: self._entries[key[0]][key[1]].at_s)
                self._recent[namespace] = dict.fromkeys(in_order)

    def _put(self, workload: WorkloadType, node: str, entry: RewardEntry) -> None:
        recent, key = self._recent.setdefault(workload.namespace, {}), (workload, node)
        recent.pop(key, None)
        recent[key] = None
        self._entries.setdefault(workload, {})[node] = entry
        if sum(map(len, self._recent.values())) > MAX_ENTRIES:
            self._drop_one()

    def _drop_one(self) -> None:
        """Drop the oldest entry of the namespace with the most entries, so that no namespace can push out the others."""
        recent = max(self._recent.values(), key=len)
        workload, node = next(iter(recent))
        del recent[(workload, node)]
        of_workload = self._entries[workload]
        del of_workload[node]
        if not of_workload:
            del self._entries[workload]
        if not recent:
            del self._recent[workload.namespace]

    def _decayed(self, entry: RewardEntry, now_s: float) -> RewardEntry:
        """Return the entry with its weight at a time."""
        weight = 0.5 ** (max(0.0, now_s - entry.at_s) / self.args.half_life)
        return RewardEntry(INITIAL_REWARD - weight * (INITIAL_REWARD - entry.reward), weight * entry.observations, entry.at_s)


def workload_of(pod: PodView) -> WorkloadType:
    """Return the workload of a pod: its namespace, and the first of the labels podtype, app and name, else its controller or its name."""
    kind = next((value for label in TYPE_LABELS if (value := pod.labels.get(label))), pod.owner or pod.name)
    return WorkloadType(pod.namespace, kind[:MAX_TYPE_CHARACTERS])


def _that_fit(entries: list[SavedEntry]) -> list[SavedEntry]:
    """Return the entries that a state can have, the newest first. Each namespace gives its newest ones before any gives older ones."""
    entries.sort(key=_newest_first)
    ranks: Counter[str] = Counter()
    ranked = []
    for one in entries:
        ranks[one.namespace] += 1
        ranked.append((ranks[one.namespace], one))
    ranked.sort(key=lambda pair: pair[0])
    size, kept = len(encode_json(SavedState(version=STATE_VERSION))), []
    for _rank, one in ranked:
        size += len(encode_json(one)) + len(",")
        if size > MAX_STATE_BYTES:
            break
        kept.append(one)
    return sorted(kept, key=_newest_first)


def _newest_first(entry: SavedEntry) -> tuple[float, str, str, str]:
    return entry.age_s, entry.namespace, entry.workload, entry.node


def _is_valid(entry: SavedEntry) -> bool:
    return 0.0 <= entry.reward <= 1.0 and 0.0 <= entry.observations < math.inf and 0.0 <= entry.age_s < math.inf
