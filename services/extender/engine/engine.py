# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The engine: it has the newest view of the cluster, and the scores of each profile for it."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable, Mapping

from ..interface import NodeView, Outcome
from ..pauses import Pause, free_with_pauses, no_pause
from ..sources.view import ClusterView
from .evaluation import Evaluator
from .fragments import Fragments, Table
from .nodes import Nodes
from .profile import ANY_SCHEDULER, Profile
from .profile_state import ProfileState


class EngineObserver(t.Protocol):
    """Receives what happens in the engine. The methods are called in the threads of the sources."""

    def on_agent_error(self, agent: str, error: Exception) -> None:
        """Note an error of an agent."""

    def on_judged(self, profile: str, agent: str, seconds: float) -> None:
        """Note the time in which an agent judged all nodes."""

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
        self._profiles, self._observer, self._pause = profiles, observer, pause
        self._evaluator = Evaluator(observer.on_agent_error, clock)
        self._fragments = Fragments()
        self._refreshing = threading.Lock()
        """Is held for a whole calculation."""
        self._writing = threading.Lock()
        """Is held while ``current`` is replaced or changed."""
        self._replaced: dict[str, NodeView] | None = None
        """The nodes that were replaced since the calculation began, and None if there is no calculation."""
        self.neutral_table = Table((), (), 0)
        """The table of pods without a profile: all nodes have the score 0."""
        self.current = Current(ClusterView(), {}, Nodes((), self._fragments))
        self.current = self._made(self.current.view, {})

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
            self._replace(view)

    def reconfigure(self, profiles: Mapping[str, Profile]) -> None:
        """Take over other profiles, and calculate all scores again."""
        with self._refreshing:
            self._profiles = profiles
            self._replace(self.current.view)

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
                if one.agent.learns:
                    try:
                        one.agent.observe(outcome)
                    except Exception as error:
                        self._observer.on_agent_error(one.name, error)

    def _replace(self, view: ClusterView) -> None:
        with self._writing:
            # Nodes that were replaced since the last view are in the new view. A reload has the same view, so it takes the newest nodes.
            newest = {node.name: node for node in self.current.nodes.views} if view is self.current.view else view.nodes
            self._replaced = {}
        current = self._made(view, newest)
        self._replace_changed(current)
        # These calculations know the nodes that were replaced until now. Later ones have to be judged for each demand.
        for name, state in current.states.items():
            if name in self.current.states:
                state.take_over_demands(self.current.states[name], self._pause)
        self._replace_changed(current)
        old_nodes = list(self.current.nodes.views)
        with self._writing:
            for node in self._replaced.values():
                _replace_node(current, node)
            self.neutral_table, self.current, self._replaced = self._made_neutral_table(current.nodes), current, None
        free_with_pauses(old_nodes, self._pause)
        self._fragments.retain_only(current.nodes.numbers)
        self._observer.on_refreshed(view, current.states)

    def _replace_changed(self, current: Current) -> None:
        """Replace the nodes that were replaced since the calculation began."""
        while self._replaced:
            with self._writing:
                _replace_node(current, self._replaced.popitem()[1])
            self._pause()

    def _made(self, view: ClusterView, nodes: Mapping[str, NodeView]) -> Current:
        shared = Nodes(list(nodes.values()), self._fragments)
        return Current(view, {name: self._made_state(profile, shared) for name, profile in self._profiles.items()}, shared)

    def _made_state(self, profile: Profile, nodes: Nodes) -> ProfileState:
        return ProfileState(profile, nodes, self._fragments, self._evaluator, pause=self._pause, observe=self._observer.on_judged)

    def _made_neutral_table(self, nodes: Nodes) -> Table:
        return Table(nodes.names, [fragments[0] for fragments in nodes.fragments], 0)


def _replace_node(current: Current, node: NodeView) -> None:
    number = current.nodes.numbers.get(node.name)
    # The sources pass a node that has changed during a refresh again after it.
    if number is None or current.nodes.views[number] is node:
        return
    current.nodes.views[number] = node
    for state in current.states.values():
        state.replace_node(number, node)
