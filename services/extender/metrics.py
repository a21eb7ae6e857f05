# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The Prometheus metrics of the extender."""

from __future__ import annotations

import math
import time
from collections import Counter as Tally
from collections.abc import Callable, Mapping
from itertools import filterfalse

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from ..common.log import Log
from ..common.registry import new_registry
from .engine.fragments import SCORES
from .engine.profile_state import ProfileState
from .sources.view import ClusterView

PREFIX = "kube_scheduling_extender_"

NO_PROFILE = ""
"""The label of requests for pods without a profile. Their scheduler names are not labels, because anybody can choose them."""

REQUEST_BUCKETS_S = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1)
JUDGE_BUCKETS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class Metrics:
    """The metrics in a separate registry, so that one process can have several. It is the observer of the engine."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.failed_agents: dict[str, str] = {}
        """The text of the last error of each agent that has failed."""
        self._neutral: set[str] = set()
        self.registry = registry = new_registry()
        self._define_requests(registry)
        self._define_data(registry)
        self._define_program(registry)

    def _define_requests(self, registry: CollectorRegistry) -> None:
        labels = ["profile", "verb"]
        self.requests = Counter(f"{PREFIX}requests", "Answered requests of the scheduler.", labels, registry=registry)
        self.request_seconds = Histogram(
            f"{PREFIX}request_seconds",
            "Seconds from the end of the request to its answer.",
            labels,
            buckets=REQUEST_BUCKETS_S,
            registry=registry,
        )
        self.refused = Counter(f"{PREFIX}refused_requests", "Requests that were not answered with 200.", ["code"], registry=registry)
        self.neutral = Counter(
            f"{PREFIX}neutral_answers",
            "Answers of prioritize with equal scores, because no value is known.",
            ["profile"],
            registry=registry,
        )
        self.judging = Histogram(
            f"{PREFIX}agent_seconds",
            "Seconds in which an agent judges all nodes.",
            ["profile", "agent"],
            buckets=JUDGE_BUCKETS_S,
            registry=registry,
        )
        self.agent_errors = Counter(f"{PREFIX}agent_errors", "Errors that an agent raised.", ["agent"], registry=registry)

    def _define_data(self, registry: CollectorRegistry) -> None:
        self.scores = Gauge(
            f"{PREFIX}nodes_by_score",
            "Nodes by the whole part of their score at the last refresh, for a pod without requests.",
            ["profile", "agent", "score"],
            registry=registry,
        )
        self.unknown = Gauge(
            f"{PREFIX}unknown_nodes", "Nodes without a fresh value at the last refresh.", ["profile", "agent"], registry=registry
        )
        self.data_age = Gauge(
            f"{PREFIX}data_age_seconds", "Age of the oldest value that an agent uses.", ["profile", "agent"], registry=registry
        )
        self.refresh_age = Gauge(f"{PREFIX}refresh_age_seconds", "Seconds since the last refresh.", registry=registry)
        self.nodes = Gauge(f"{PREFIX}nodes", "Nodes in the last refresh.", registry=registry)
        self.query_errors = Counter(f"{PREFIX}query_errors", "Sources that failed in a refresh.", ["source"], registry=registry)
        self.unmapped = Gauge(f"{PREFIX}unmapped_series", "Series that belong to no node, or to several.", registry=registry)

    def _define_program(self, registry: CollectorRegistry) -> None:
        self.configuration_valid = Gauge(
            f"{PREFIX}configuration_valid", "1 if FILE can be used, 0 if the previous settings are in use.", registry=registry
        )
        self.reloads = Counter(f"{PREFIX}reloads", "Changes of FILE or of a certificate.", ["result"], registry=registry)
        self.refused_agents = Gauge(
            f"{PREFIX}refused_agents", "Agents of FILE that are left out, because they cannot be used.", registry=registry
        )
        self.state_errors = Counter(f"{PREFIX}state_errors", "Failures to load or save what agents have learned.", registry=registry)
        self.configuration_valid.set(1)
        for result in ("success", "failure"):
            self.reloads.labels(result)

    def on_answer(self, profile: str, verb: str, seconds: float) -> None:
        """Note an answered request. This takes 3 µs."""
        self.requests.labels(profile, verb).inc()
        self.request_seconds.labels(profile, verb).observe(seconds)

    # --- the observer of the engine ---

    def on_agent_error(self, agent: str, error: Exception) -> None:
        """Note an error of an agent. Equal errors in a row are logged once."""
        self.agent_errors.labels(agent).inc()
        text = f"{type(error).__name__}: {error}"
        if self.failed_agents.get(agent) != text:
            self.failed_agents[agent] = text
            self._log.error("an agent has failed, and all nodes count as unknown for it", agent=agent, error=text, cause=error)

    def on_judged(self, profile: str, agent: str, seconds: float) -> None:
        """Note the time in which an agent judged all nodes."""
        self.judging.labels(profile, agent).observe(seconds)

    def on_refreshed(self, view: ClusterView, states: Mapping[str, ProfileState]) -> None:
        """Note a new view and its scores."""
        self.nodes.set(len(view.nodes))
        self.refresh_age.set_function(lambda: time.monotonic() - view.refreshed_at_s if view.version else float("nan"))
        for source in view.errors:
            self.query_errors.labels(source).inc()
        self.unmapped.set(view.unmapped_count)
        for metric in (self.scores, self.unknown, self.data_age):
            metric.clear()
        for name, state in states.items():
            self._set_scores(name, state)
        self._log_neutral({name for name, state in states.items() if state.is_neutral})

    def _log_neutral(self, neutral: set[str]) -> None:
        for name in sorted(neutral - self._neutral):
            self._log.warning("no value is known for any node, so all nodes have equal scores", profile=name)
        for name in sorted(self._neutral - neutral):
            self._log.info("values of nodes are known again", profile=name)
        self._neutral = neutral

    def _set_scores(self, profile: str, state: ProfileState) -> None:
        for one, part in state.parts:
            # The loop is in C, because a request may wait for it.
            tally = Tally(map(int, filterfalse(math.isnan, part.scores)))
            for score in SCORES:
                self.scores.labels(profile, one.name, score).set(tally[score])
            self.unknown.labels(profile, one.name).set(len(part.scores) - tally.total())
            if part.oldest_s is not None:
                self.data_age.labels(profile, one.name).set_function(_age_of(part.oldest_s))


def _age_of(measured_at_s: float) -> Callable[[], float]:
    return lambda: time.monotonic() - measured_at_s
