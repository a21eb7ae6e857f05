# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The answers to kube-scheduler: the verbs filter, prioritize and preempt, and the paths of the original systems."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial
from operator import getitem

from ..agents.original.paths import ORIGINAL_PATHS, PREDICATES, PRIORITIES, OriginalPath
from ..engine.engine import Engine
from ..engine.fragments import Table, answer_of
from ..engine.profile import Profile
from ..engine.profile_state import ProfileState
from ..engine.recent_pods import RecentPod, RecentPods
from ..interface import PodView
from ..metrics import NO_PROFILE, Metrics
from ..pauses import RequestPause
from .wire import (
    MOST_NODES,
    BadRequestError,
    NodesRequest,
    RequestPod,
    filter_answer,
    preemption_answer,
    read_nodes_request,
    read_preemption_request,
)

ROOT = "/scheduler/"

Handler = Callable[[bytes], bytes]
Record = Callable[[str, bytes], None]
"""Receives the path and the body of each request, for the recorder."""


class NoSuchPathError(BadRequestError):
    """The path is none of the scheduler's. The text says what a path has to be."""

    status = 404


def ignore(*_arguments: object) -> None:
    """Do nothing."""


class SchedulerApi:
    """Answers bodies with bodies. Each handler raises BadRequestError for a body that cannot be used.

    ``pauses`` are told of each request. ``on_no_profile`` receives the scheduler name of each pod without a profile.
    """

    def __init__(
        self,
        engine: Engine,
        metrics: Metrics,
        recent: RecentPods,
        record: Record | None = None,
        *,
        pauses: RequestPause | None = None,
        on_no_profile: Callable[[str], None] = ignore,
    ) -> None:
        self._on_no_profile, self._record, self._pauses = on_no_profile, record or ignore, pauses or RequestPause()
        self._engine, self._metrics, self._recent = engine, metrics, recent
        self._handlers = {
            ROOT + verb: self._handler(ROOT + verb, verb, answer_to)
            for verb, answer_to in (("filter", self._filter), ("prioritize", self._prioritize), ("preempt", self._preempt))
        }
        for name, original in ORIGINAL_PATHS.items():
            for prefix, answer_for in ((PREDICATES, self._original_filter), (PRIORITIES, self._original_prioritize)):
                verb = f"{prefix.removeprefix(ROOT)}{original.agent}"
                self._handlers[prefix + name] = self._handler(prefix + name, verb, partial(answer_for, original))

    def handler(self, path: str) -> Handler:
        """Return the handler of a path. Raises NoSuchPathError."""
        found = self._handlers.get(path)
        if found is None:
            raise NoSuchPathError(f"there is no path {path}: {_remedy(path)}")
        return found

    def _handler(self, path: str, verb: str, answer_to: Callable[[bytes], tuple[str, bytes]]) -> Handler:
        """Return the handler of a verb, which is recorded, pauses the work in the background, and is counted by its profile."""

        def handle(body: bytes) -> bytes:
            self._pauses.note_request()
            self._record(path, body)
            began_at_s = time.perf_counter()
            profile, answer = answer_to(body)
            self._metrics.on_answer(profile, verb, time.perf_counter() - began_at_s)
            return answer

        return handle

    # --- the verbs: each returns the name of the profile, and the answer ---

    def _prioritize(self, body: bytes) -> tuple[str, bytes]:
        """Return an integer score from 0 to 10 for each node."""
        request = read_nodes_request(body, self._most_nodes())
        pod = request.pod
        state = self._engine.state_for(pod.scheduler_name)
        if state is None:
            self._on_no_profile(pod.scheduler_name)
            return NO_PROFILE, answer_of(self._engine.neutral_table, request.names)
        view = _view_of(pod)
        answer = answer_of(state.table(pod.key, view), request.names)
        if state.is_neutral:
            self._metrics.neutral.labels(state.profile.name).inc()
        self._remember(request, state, view)
        return state.profile.name, answer

    def _filter(self, body: bytes) -> tuple[str, bytes]:
        """Return the nodes on which the pod may run, and the reason for each other node."""
        request = read_nodes_request(body, self._most_nodes())
        state = self._engine.state_for(request.pod.scheduler_name)
        if state is None:
            self._on_no_profile(request.pod.scheduler_name)
            return NO_PROFILE, _filtered(request, {})
        view, failed = _view_of(request.pod), dict[str, str]()
        if state.profile.filters:
            self._remember(request, state, view)
            failed = state.scores(view).rejections(request.names)
        else:
            # No node is rejected, so a demand that cannot be read must not stop the pod.
            with contextlib.suppress(BadRequestError):
                self._remember(request, state, view)
        return state.profile.name, _filtered(request, failed)

    def _preempt(self, body: bytes) -> tuple[str, bytes]:
        """Return the nodes whose victims may be deleted."""
        request = read_preemption_request(body, self._most_nodes())
        state = self._engine.state_for(request.pod.scheduler_name)
        if state is None:
            self._on_no_profile(request.pod.scheduler_name)
            return NO_PROFILE, preemption_answer(request.candidates, list(request.candidates))
        names = state.allowed_nodes(request.candidates, _view_of(request.pod))
        return state.profile.name, preemption_answer(request.candidates, names)

    def _most_nodes(self) -> int:
        """Return the nodes that a request may have. Nodes are created faster than the extender learns of them."""
        return max(MOST_NODES, 4 * len(self._engine.current.nodes.names))

    def _remember(self, request: NodesRequest, state: ProfileState, view_of: Callable[[], PodView]) -> None:
        """Keep the pod for /explain. A pod that no node accepts gets no prioritize, so that filter has to keep it too."""
        pod = request.pod
        view = view_of() if state.profile.is_per_demand else None
        nodes, now_s = len(request.names), self._recent.clock()
        self._recent.add(RecentPod(pod.namespace, pod.name, pod.uid, pod.scheduler_name, nodes, now_s, view))

    # --- the paths of the original systems ---

    def _original_filter(self, path: OriginalPath, body: bytes) -> tuple[str, bytes]:
        request = read_nodes_request(body, self._most_nodes())
        state, number = self._find(path.agent, request.pod.scheduler_name)
        view = _view_of(request.pod)
        rejections = state.scores(view).parts[number].rejections
        self._remember(request, state, view)
        failed = {name: rejections[name] for name in request.names if name in rejections}
        return state.profile.name, _filtered(request, failed)

    def _original_prioritize(self, path: OriginalPath, body: bytes) -> tuple[str, bytes]:
        request = read_nodes_request(body, self._most_nodes())
        state, number = self._find(path.agent, request.pod.scheduler_name)
        view = _view_of(request.pod)
        self._remember(request, state, view)
        demand = state.scores(view)
        if path.by_value:
            scores = map(path.score_by_value, state.agents[number].judge(state.nodes.views, demand.pod))
        else:
            scores = map(path.score, demand.parts[number].scores)
        table = Table(state.nodes.names, map(getitem, state.nodes.fragments, scores), path.unknown)
        return state.profile.name, answer_of(table, request.names)

    def _find(self, agent: str, scheduler_name: str) -> tuple[ProfileState, int]:
        """Return the state with the agent, and its number among the agents that judge nodes.

        The profile of the pod has precedence. The original systems did not read the scheduler name, so the first profile that has the agent
        is the second choice.
        """
        own = self._engine.state_for(scheduler_name)
        for state in (*((own,) if own is not None else ()), *self._engine.current.states.values()):
            number = _number_of(agent, state.profile)
            if number is not None:
                return state, number
        raise NoSuchPathError(f"no profile of FILE has the agent {agent}: add it to a profile to use this path")


def _remedy(path: str) -> str:
    """Return the paths that a scheduler with this path can have meant."""
    for prefix in (PREDICATES, PRIORITIES):
        if path.startswith(prefix):
            return f"{prefix} is followed by one of {', '.join(ORIGINAL_PATHS)}"
    return "the verbs of the scheduler's extender are filter, prioritize and preempt, and urlPrefix ends with /scheduler"


def _number_of(agent: str, profile: Profile) -> int | None:
    return next((number for number, one in enumerate(profile.judging) if one.agent.name == agent), None)


def _view_of(pod: RequestPod) -> Callable[[], PodView]:
    return lambda: pod.view


def _filtered(request: NodesRequest, failed: dict[str, str]) -> bytes:
    names, nodes = request.names, request.nodes
    if failed:
        if nodes is not None:
            nodes = [node for name, node in zip(names, nodes, strict=True) if name not in failed]
        names = [name for name in names if name not in failed]
    return filter_answer(names, nodes, failed)
