# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The scores of one profile for one view of the cluster.

A refresh makes a new state in the thread of the sources. The request path reads the state, and calculates only if a pod has a new demand.
"""

from __future__ import annotations

from collections.abc import Callable

from ..interface import NodeView, PodView
from ..pauses import Pause, no_pause
from .agent_scores import AgentScores
from .demand_scores import DemandScores
from .dithering import TABLES, table_of
from .evaluation import Evaluator
from .fragments import Fragments, Table
from .judges import EMPTY_POD, Judges, Observe, ignore_duration
from .kept_demands import KeptDemands
from .nodes import Nodes
from .original_table import OriginalTables
from .profile import ConfiguredAgent, Profile


class ProfileState:
    """The scores of a profile. ``pause`` is called between parts of the calculation.

    ``is_neutral``: there are scoring agents, and none of them knows any node. All nodes are equal then.
    """

    def __init__(
        self,
        profile: Profile,
        nodes: Nodes,
        fragments: Fragments,
        evaluator: Evaluator,
        *,
        pause: Pause = no_pause,
        observe: Observe = ignore_duration,
    ) -> None:
        self.profile, self.nodes, self.evaluator = profile, nodes, evaluator
        self._judges = Judges(profile, nodes, evaluator, pause, observe)
        self.prepared = self._judges.prepared
        self._parts = [self._judges.all_nodes(number, EMPTY_POD, pause) for number in range(len(profile.judging))]
        medians = [part.median for one, part in self.parts if one.agent.can_score]
        self.is_neutral = bool(medians) and all(median is None for median in medians)
        self._static = [None if one.agent.per_demand else part for one, part in self.parts]
        self._kept = KeptDemands(self._judges, self._static)
        self._originals = OriginalTables(self._judges, fragments)
        self._fixed: list[Table] = []
        """The tables of all pods, if no agent of the profile depends on the pod."""
        if not profile.is_per_demand:
            self._fixed_scores = DemandScores(profile, None, self._parts, len(nodes.names))
            for number in range(TABLES):
                self._fixed.append(self._fixed_scores.make_table(number, nodes))
                pause()

    @property
    def parts(self) -> list[tuple[ConfiguredAgent, AgentScores]]:
        """Return the agents with their scores at the refresh. An agent that depends on the pod has those for a pod without requests."""
        return list(zip(self.profile.judging, self._parts, strict=True))

    # --- the request path ---

    def table(self, key: str, pod: Callable[[], PodView]) -> Table:
        """Return the table of a pod by its ``table_key``. ``pod`` is called only if the scores depend on the pod."""
        number = table_of(key)
        return self._fixed[number] if self._fixed else self._kept.table(pod(), number)

    def scores(self, pod: Callable[[], PodView]) -> DemandScores:
        """Return the scores for a pod's demand."""
        return self._fixed_scores if self._fixed else self._kept.scores(pod())

    def scores_for_people(self, pod: PodView | None) -> DemandScores:
        """Return the scores for a pod, or for one without requests. They are not kept, and no request waits for their calculation."""
        if self._fixed:
            return self._fixed_scores
        if pod is None:
            return DemandScores(self.profile, EMPTY_POD, self._parts, len(self.nodes.names))
        return self._kept.known(pod) or self._kept.calculated(pod)

    def original_table(self, number: int, pod: Callable[[], PodView]) -> Table:
        """Return the table of one agent that judges nodes, by its number, with the rounding of the original system."""
        return self._originals.table(number, pod)

    # --- the thread of the sources ---

    def take_over_demands(self, old: ProfileState, pause: Pause) -> None:
        """Calculate the demands that were used last with the old state, so that no request has to wait for them."""
        if old.profile is self.profile:
            self._kept.take_over(old._kept.used(), pause)

    def replace_node(self, number: int, node: NodeView) -> None:
        """Take over a node, which is a new one in ``nodes`` already. The next request of a demand judges it."""
        for agent, part in enumerate(self._static):
            if part is not None:
                part.replace(number, node.name, self._judges.one_node(agent, number, None))
        self._originals.replace(node)
        if self._fixed:
            self._fixed_scores.update(number, node.name, self.nodes.fragments[number])
        else:
            self._kept.replace_node(number)
