# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agent ``reward``: learns on which nodes the pods of a type of workload run well.

Each observation moves the reward of its type and node: new = (1 − rate)·old + rate·result, the result being 1 or 0 (as in kubeRL of
IBM/kube-safe-scheduler). Unlike there, knowledge decays towards the reward of an unknown node, and nodes with few observations get a bonus
(UCB1, Auer et al. 2002), so that a node that had a problem is tried again. Score: 10 times the reward with its bonus, at most 10.
"""

from __future__ import annotations

import itertools
import math
import threading
import typing as t
from collections.abc import Hashable, Mapping, Sequence

from ....plugins.module_utils.model.codec import DecodeError, Struct, decode_json, encode_json
from ..interface import BEST_SCORE, Agent, Judgement, NodeView, Outcome, PodView
from .arguments import Duration, check_range, seconds

TYPE_LABELS = ("podtype", "app", "name")
"""The labels that tell the type of workload, the first that is present. Without them the pod's name is its type."""
INITIAL_REWARD = 1.0
MAX_STATE_BYTES = 512 * 1024
MAX_ENTRIES = 20_000


class RewardArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``rate``: the weight of a new observation. ``half_life``: the time in which old knowledge loses half of its weight.

    ``exploration``: the weight of the bonus of nodes with few observations; 0 switches it off.
    """

    rate: float = 0.1
    half_life: Duration = "24h"
    exploration: float = 0.05

    def __post_init__(self) -> None:
        check_range("rate", self.rate, 0.001, 1)
        check_range("exploration", self.exploration, 0, 10)
        seconds("half_life", self.half_life)


class Entry(t.NamedTuple):
    """The reward of a type of workload on a node, the number of its observations, and the time of the last one.

    Reward and number decay with time.
    """

    reward: float
    observations: float
    at_s: float


class SavedEntry(Struct, frozen=True, array_like=True):
    """An entry as it is saved. ``age_s`` is the age at the time of the newest entry, because the clock of a process ends with it."""

    workload: str
    node: str
    reward: float
    observations: float
    age_s: float


class SavedState(Struct, frozen=True):
    """The entries, the newest first."""

    version: int
    entries: tuple[SavedEntry, ...] = ()


class Reward(Agent):
    """Scores nodes by the results of earlier pods of the same type of workload."""

    name = "reward"
    args_type = RewardArgs
    per_demand = True
    learns = True

    def __init__(self, args: RewardArgs) -> None:
        super().__init__(args)
        self._half_life_s = seconds("half_life", args.half_life)
        # Outcomes come in a thread of the sources, and requests in another one.
        self._lock = threading.Lock()
        # By type, then by node. The order of _recent is that of the observations, the oldest first.
        self._entries: dict[str, dict[str, Entry]] = {}
        self._recent: dict[tuple[str, str], None] = {}
        self._loaded: tuple[SavedEntry, ...] = ()
        # The number of the last change of each type. Numbers are not used again, because the scores of a key are cached.
        self._changes: dict[str, int] = {}
        self._numbers = itertools.count(1)

    def demand_key(self, pod: PodView) -> Hashable:
        """Return the type of workload and the number of its last change, so that a new observation counts immediately."""
        workload = workload_type(pod)
        return workload, self._changes.get(workload, 0)

    def judge(self, prepared: t.Any, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        """Return the score of the node for the type of the pod. Without a pod the score is that of an unknown node."""
        if pod is None:
            return Judgement(BEST_SCORE * INITIAL_REWARD, explanation="the score depends on the pod")
        return self.score_all(prepared, [node], pod, now_s)[0]

    def score_all(self, prepared: t.Any, nodes: Sequence[NodeView], pod: PodView, now_s: float) -> Sequence[Judgement]:
        """Return the scores of the nodes for the type of the pod."""
        workload = workload_type(pod)
        with self._lock:
            self._take_loaded(now_s)
            known = dict(self._entries.get(workload, {}))
        total = sum(self._decayed(entry, now_s).observations for entry in known.values())
        return [self._judgement(workload, known.get(node.name), total, now_s) for node in nodes]

    def _judgement(self, workload: str, entry: Entry | None, total: float, now_s: float) -> Judgement:
        if entry is None:
            return Judgement(BEST_SCORE * INITIAL_REWARD, explanation=f"no observation of {workload} on this node")
        now = self._decayed(entry, now_s)
        bonus = self.args.exploration * math.sqrt(2.0 * math.log1p(total) / (1.0 + now.observations))
        score = BEST_SCORE * min(1.0, now.reward + bonus)
        return Judgement(score, now.reward, f"reward {now.reward:.2f} of {workload} from {now.observations:.1f} observations", entry.at_s)

    def original_score(self, judgement: Judgement) -> int:
        """Return the reward without bonus in whole tenths. As in the original, a node without an observation has 0."""
        return 0 if judgement.value is None else int(BEST_SCORE * judgement.value)

    def observe(self, outcome: Outcome) -> None:
        """Move the reward of the pod's type on its node."""
        workload = workload_type(outcome.pod)
        with self._lock:
            self._take_loaded(outcome.at_s)
            before = self._entries.get(workload, {}).get(outcome.node)
            known = Entry(INITIAL_REWARD, 0.0, outcome.at_s) if before is None else self._decayed(before, outcome.at_s)
            reward = (1.0 - self.args.rate) * known.reward + self.args.rate * float(outcome.succeeded)
            self._put(workload, outcome.node, Entry(reward, known.observations + 1.0, known.at_s))

    def save(self) -> bytes:
        """Return the entries as JSON, the newest first. The oldest are left out if it would be longer than 512 KiB."""
        with self._lock:
            if self._loaded and self._recent:
                self._take_loaded(max(self._entries[workload][node].at_s for workload, node in self._recent))
            entries = [(self._entries[workload][node], workload, node) for workload, node in self._recent]
            found = list(self._loaded)
        entries.sort(key=lambda one: one[0].at_s, reverse=True)
        for entry, workload, node in entries:
            age_s = round(entries[0][0].at_s - entry.at_s, 1)
            found.append(SavedEntry(workload, node, round(entry.reward, 4), round(entry.observations, 2), age_s))
        size = len(encode_json(SavedState(version=1)))
        for kept, one in enumerate(found):
            size += len(encode_json(one)) + len(",")
            if size > MAX_STATE_BYTES:
                del found[kept:]
                break
        return encode_json(SavedState(version=1, entries=tuple(found)))

    def load(self, state: bytes) -> None:
        """Take over saved entries. Raises ValueError if the state cannot be read.

        If this process has observed the same type and node since its start, the entry with more observations stays.
        """
        try:
            saved = decode_json(SavedState, state)
        except DecodeError as error:
            raise ValueError(f"the saved rewards cannot be read: {error}") from error
        if saved.version != 1:
            raise ValueError(f"the saved rewards have the version {saved.version}, and this program reads version 1")
        if not all(_is_valid(one) for one in saved.entries):
            raise ValueError("the saved rewards have numbers outside their ranges")
        with self._lock:
            self._loaded = saved.entries[:MAX_ENTRIES]

    def _take_loaded(self, now_s: float) -> None:
        """Take over the loaded entries as soon as the time is known. Their ages count from then on."""
        loaded, self._loaded = self._loaded, ()
        for one in reversed(loaded):
            own = self._entries.get(one.workload, {}).get(one.node)
            if own is None or own.observations < one.observations:
                self._put(one.workload, one.node, Entry(one.reward, one.observations, now_s - one.age_s))
        if loaded:
            self._recent = dict.fromkeys(sorted(self._recent, key=lambda key: self._entries[key[0]][key[1]].at_s))

    def _put(self, workload: str, node: str, entry: Entry) -> None:
        key = (workload, node)
        self._recent.pop(key, None)
        self._recent[key] = None
        self._entries.setdefault(workload, {})[node] = entry
        self._changes[workload] = next(self._numbers)
        if len(self._recent) > MAX_ENTRIES:
            oldest_workload, oldest_node = next(iter(self._recent))
            self._drop(oldest_workload, oldest_node)

    def _drop(self, workload: str, node: str) -> None:
        del self._recent[(workload, node)]
        of_type = self._entries[workload]
        del of_type[node]
        if not of_type:
            del self._entries[workload], self._changes[workload]

    def _decayed(self, entry: Entry, now_s: float) -> Entry:
        """Return the entry with its weight at a time. Observations can arrive in another order than they were made."""
        at_s = max(now_s, entry.at_s)
        weight = 0.5 ** ((at_s - entry.at_s) / self._half_life_s)
        return Entry(INITIAL_REWARD - weight * (INITIAL_REWARD - entry.reward), weight * entry.observations, at_s)


def workload_type(pod: PodView) -> str:
    """Return the type of workload of a pod: the first of the labels podtype, app and name, and otherwise the pod's name."""
    return next((value for label in TYPE_LABELS if (value := _label(pod.labels, label))), pod.name)


def _label(labels: Mapping[str, str], name: str) -> str:
    return labels.get(name, "")


def _is_valid(entry: SavedEntry) -> bool:
    return 0.0 <= entry.reward <= 1.0 and 0.0 <= entry.observations < math.inf and 0.0 <= entry.age_s < math.inf
