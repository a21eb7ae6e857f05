# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores of the agents that depend on the pod, kept once for each key of an agent.

Pods of 50 workloads with ten sizes have 50 demands if an agent learns by workload. The agents that depend on the size then have ten keys.
"""

from __future__ import annotations

import typing as t
from collections.abc import Sequence
from weakref import WeakValueDictionary

from ..interface import Judgement, PodView
from ..pauses import Pause, no_pause
from .agent_scores import AgentScores
from .judges import Judges


class KeyScores:
    """The scores of one agent for one of its keys. ``pod``: the first pod with the key.

    ``updated``: the number of replaced nodes that the scores know.
    """

    __slots__ = ("__weakref__", "pod", "scores", "updated")

    def __init__(self, pod: PodView, scores: AgentScores, updated: int) -> None:
        self.pod, self.scores, self.updated = pod, scores, updated


class SharedScores:
    """The scores by agent and key, for as long as a demand has them. Not for several threads at the same time.

    ``replaced``: the numbers of the nodes that were replaced since the refresh, in this order.
    """

    def __init__(self, judges: Judges, replaced: Sequence[int]) -> None:
        self._judges, self._replaced = judges, replaced
        self._by_agent: dict[int, WeakValueDictionary[t.Hashable, KeyScores]] = {
            agent: WeakValueDictionary() for agent in judges.per_demand
        }

    def of(self, pod: PodView, keys: Sequence[t.Hashable], pause: Pause) -> dict[int, KeyScores]:
        """Return the newest scores for a pod by the number of the agent. ``keys``: the agents' keys for the pod, in their order."""
        found = {}
        for (agent, by_key), key in zip(self._by_agent.items(), keys, strict=True):
            known = by_key.get(key)
            if known is None:
                # A node that is replaced during the calculation is judged once more.
                updated = len(self._replaced)
                known = by_key[key] = KeyScores(pod, self._judges.all_nodes(agent, pod, pause), updated)
            found[agent] = known
        self.update(found)
        return found

    def update(self, scores: t.Mapping[int, KeyScores]) -> None:
        """Judge the nodes that were replaced since the last update. An agent that compares nodes judges all nodes."""
        newest = len(self._replaced)
        for agent, one in scores.items():
            if one.updated == newest:
                continue
            if agent in self._judges.comparing:
                one.scores.replace_all(self._judges.all_nodes(agent, one.pod, no_pause))
            else:
                for node in dict.fromkeys(self._replaced[one.updated :]):
                    self._take_over(one, node, self._judges.one_node(agent, node, one.pod))
            one.updated = newest

    def late(self, position: int) -> dict[int, list[KeyScores]]:
        """Return the scores that do not know a replaced node yet, by the number of the agent. ``position``: of the node in ``replaced``.

        An agent that compares nodes has none: one calculation for a request has all replaced nodes.
        """
        single = {agent: by_key for agent, by_key in self._by_agent.items() if agent not in self._judges.comparing}
        late = {agent: [one for one in by_key.values() if one.updated == position] for agent, by_key in single.items()}
        return {agent: found for agent, found in late.items() if found}

    def update_late(self, one: KeyScores, position: int, judgement: Judgement) -> None:
        """Take over the judgement on a replaced node, unless the scores know the node already."""
        if one.updated == position:
            self._take_over(one, self._replaced[position], judgement)
            one.updated += 1

    @property
    def size_bytes(self) -> int:
        """Return the estimated size of all scores."""
        return sum(one.scores.size_bytes for by_key in self._by_agent.values() for one in by_key.values())

    def _take_over(self, one: KeyScores, node: int, judgement: Judgement) -> None:
        one.scores.replace(node, self._judges.nodes.names[node], judgement)
