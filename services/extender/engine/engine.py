# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The engine: it has the newest view of the cluster, and the scores of each profile for it."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable, Mapping

from ..agents.original.learning import LearningAgent
from ..interface import NodeView
from ..pauses import Pause, free_with_pauses, no_pause
from ..sources.kubernetes.pod_tracker import Outcome
from ..sources.view import ClusterView
from .agent_calls import AgentObserver
from .fragments import Table
from .nodes import Nodes
from .profile import ANY_SCHEDULER, Profile
from .profile_state import ProfileState


class EngineObserver(AgentObserver, t.Protocol):
    """Receives what happens in the engine. The methods are called in the threads of the sources, and those of agents also in others."""

    def on_refreshed(self, view: ClusterView, states: Mapping[str, ProfileState]) -> None:
        """Note a new view and its scores."""


class Current(t.NamedTuple):
    """A view with the states of the profiles, which belong together."""

    view: ClusterView
    states: Mapping[str, ProfileState]
    nodes: Nodes


class Engine:
    """Keeps the scores of all profiles up to date. It is the ``ViewListener`` of the sources.

    The request path only reads ``current``, which is replaced as a whole. ``clock``: the monotonic seconds by which agents judge the age of
    values. It is the clock of the sources.
    """

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        observer: EngineObserver,
        *,
        pause: Pause = no_pause,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._profiles, self._observer, self._pause, self._clock = profiles, observer, pause, clock
        self._refreshing = threading.Lock()
        """Is held for a whole calculation."""
        self._writing = threading.Lock()
        """Is held while ``current`` is replaced or changed."""
        self._replaced: dict[str, NodeView] | None = None
        """The nodes that were replaced since the calculation began, and None if there is no calculation."""
        self.neutral_table = Table((), (), 0)
        """The table of pods without a profile: all nodes have the score 0."""
        self.current = self._calculated(ClusterView(), Nodes(()))

    @property
    def has_refreshed(self) -> bool:
        """Return whether the sources have tried a first refresh."""
        return self.current.view.version > 0

    def state_for(self, scheduler_name: str) -> ProfileState | None:
        """Return the state of the profile of a scheduler name, or None."""
        states = self.current.states
        return states.get(scheduler_name) or states.get(ANY_SCHEDULER)

    def on_view(self, view: ClusterView) -> None:
        """Calculate all scores again. Nodes that are replaced meanwhile are replaced in the scores before."""
        with self._refreshing:
            self._refresh(view)

    def reconfigure(self, profiles: Mapping[str, Profile]) -> None:
        """Take over other profiles, and calculate all scores again."""
        with self._refreshing:
            self._profiles = profiles
            self._refresh(self.current.view)

    def on_node(self, node: NodeView) -> None:
        """Judge one node again. A node that is not in the view is judged with the next view."""
        with self._writing:
            if self._replaced is not None:
                self._replaced[node.name] = node
            _replace_node(self.current, node)

    def on_outcome(self, outcome: Outcome) -> None:
        """Let the agents that learn observe the outcome of a pod."""
        for profile in self._profiles.values():
            for one in profile.agents:
                if isinstance(one.agent, LearningAgent):
                    try:
                        one.agent.observe(*outcome)
                    except Exception as error:
                        self._observer.on_agent_error(one.name, error)

    def _refresh(self, view: ClusterView) -> None:
        before = self.current
        with self._writing:
            self._replaced = {}
            # From now on replaced nodes are noted. Those that were replaced before are in the view, or in the scores before after a reload.
            newest = list(before.nodes.views if view is before.view else view.nodes.values())
        current = self._calculated(view, Nodes(newest, before.nodes))
        for name, state in current.states.items():
            if name in before.states:
                state.take_over_demands(before.states[name], self._pause)
        while not self._took_over(current):
            self._pause()
        old_nodes = list(before.nodes.views)
        del before
        free_with_pauses(old_nodes, self._pause)
        self._observer.on_refreshed(view, current.states)

    def _calculated(self, view: ClusterView, nodes: Nodes) -> Current:
        states = {
            name: ProfileState(profile, nodes, self._observer, pause=self._pause, clock=self._clock)
            for name, profile in self._profiles.items()
        }
        return Current(view, states, nodes)

    def _took_over(self, current: Current) -> bool:
        """Take over the new scores and return True, or one of the nodes that were replaced during the calculation and return False."""
        with self._writing:
            if self._replaced:
                _replace_node(current, self._replaced.popitem()[1])
                return False
            self.neutral_table = Table(current.nodes.names, [fragments[0] for fragments in current.nodes.fragments], 0)
            self.current, self._replaced = current, None
            return True


def _replace_node(current: Current, node: NodeView) -> None:
    number = current.nodes.numbers.get(node.name)
    if number is None:
        return
    current.nodes.views[number] = node
    for state in current.states.values():
        state.replace_node(number)
    # The last step: from now on requests judge the node for their demands, and have the new scores of the other agents.
    current.nodes.replaced.append(number)
