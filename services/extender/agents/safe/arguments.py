# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The arguments of the agents ``safe_overload`` and ``safe_balance``, and the queries that follow from them."""

from __future__ import annotations

import typing as t

from .....plugins.module_utils.model.codec import Struct
from ....common.kinds import number, seconds
from ...interface import Annotation, Expression, Query
from ..arguments import Percent, ValueAgeArgs

CPU, MEMORY = "cpu", "memory"
RESOURCES = (CPU, MEMORY)
ANNOTATIONS = "annotations"
MILLI = 1000.0
RATE_WINDOW = "2m"
"""The window of the rates whose mean and deviation are taken. A rate over the whole window is too small after the start of a node."""

Window = t.Annotated[int, seconds(60)]
"""The mean of CPU has one point for each minute of its window."""


class ResourceArgs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of one resource.

    ``percentile`` and ``window`` replace those of the agent. ``mean_free``, ``deviation``, ``forecast_free`` and ``capacity`` are PromQL
    expressions that replace the default ones, such as the names of recording rules; CPU is in cores and memory in bytes.
    ``forecast_free`` has no default. ``timestamp_of`` is the selector of the raw series behind replaced expressions.
    """

    percentile: Percent | None = None
    window: Window | None = None
    mean_free: str = ""
    deviation: str = ""
    forecast_free: str = ""
    capacity: str = ""
    timestamp_of: str = ""

    @property
    def has_expressions(self) -> bool:
        """Return whether an expression is given."""
        return any((self.mean_free, self.deviation, self.forecast_free, self.capacity, self.timestamp_of))


class SafeArgs(ValueAgeArgs, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The arguments of ``safe_overload`` and ``safe_balance``.

    - ``utilisation``: the threshold of overload in percent
    - ``percentile``: the accepted probability of overload in percent
    - ``forecast_weight``: the weight of the forecast against the mean in percent
    - ``source``: annotations are those of kube-safe-scheduler; prometheus takes mean and deviation over ``window``
    - ``short_window``: the window of nodes that have been measured for less than half of ``window``; 0 means none, and own expressions have
      none
    - ``count_new_pods``: add the requests of pods that the mean does not show yet
    """

    utilisation: t.Annotated[float, number(1, 100)] = 90.0
    percentile: Percent = 30.0
    forecast_weight: Percent = 20.0
    source: t.Literal["prometheus", "annotations"] = "prometheus"
    window: Window = 3600
    short_window: t.Annotated[int, seconds(0)] = 300
    cpu: ResourceArgs = ResourceArgs()
    memory: ResourceArgs = ResourceArgs()
    count_new_pods: bool = True

    def __post_init__(self) -> None:
        for resource in RESOURCES:
            if self.source == ANNOTATIONS and self.of(resource).has_expressions:
                raise ValueError(f"{resource} has PromQL expressions, and source is annotations: remove one of them")

    def of(self, resource: str) -> ResourceArgs:
        """Return the arguments of a resource."""
        return self.cpu if resource == CPU else self.memory

    def accepted_risk(self, resource: str) -> float:
        """Return the accepted probability of overload, 0 to 1."""
        own = self.of(resource).percentile
        return (self.percentile if own is None else own) / 100.0

    def window_s(self, resource: str) -> int:
        """Return the window of mean and deviation in seconds."""
        own = self.of(resource).window
        return self.window if own is None else own


class ResourceQueries(t.NamedTuple):
    """The queries about one resource over one window.

    ``scale``: the factor to the unit of requests (millicores, bytes). ``capacity`` None: the allocatable amount of the node counts.
    ``history``: has a value if the node was measured half a window ago; None if the window has no replacement.
    """

    mean_free: Query
    deviation: Query
    forecast_free: Query | None
    capacity: Query | None
    window_s: int
    scale: float
    history: Query | None = None


def resource_queries(args: SafeArgs, resource: str) -> tuple[ResourceQueries, ...]:
    """Return the queries of a resource: those of the window, followed by those of the short window if it is used."""
    if args.source == ANNOTATIONS:
        return (_annotation_queries(resource, args.window_s(resource)),)
    own, window_s = args.of(resource), args.window_s(resource)
    long = _expressions(own, resource, window_s)
    if own.mean_free or not 0 < args.short_window < window_s:
        return (long,)
    selector = f"{_SELECTORS[resource]} offset {window_s // 2}s"
    history = f"count without (cpu, mode) ({selector})" if resource == CPU else selector
    return (long._replace(history=Expression(history)), _expressions(own, resource, args.short_window))


_SELECTORS = {CPU: 'node_cpu_seconds_total{mode="idle"}', MEMORY: "node_memory_MemAvailable_bytes"}


def _annotation_queries(resource: str, window_s: int) -> ResourceQueries:
    # "forcasted" is the spelling of kube-safe-scheduler.
    mean, deviation, forecast = (Annotation(f"{kind}-free-{resource}") for kind in ("mean", "std", "forcasted"))
    return ResourceQueries(mean, deviation, forecast, None, window_s, 1.0)


def _expressions(own: ResourceArgs, resource: str, window_s: int) -> ResourceQueries:
    selector = _SELECTORS[resource]
    if resource == CPU:
        points = f"sum without (cpu, mode) (rate({selector}[{RATE_WINDOW}]))[{window_s}s:1m]"
        capacity = f"count without (cpu, mode) ({selector})"
    else:
        points, capacity = f"{selector}[{window_s}s]", "node_memory_MemTotal_bytes"

    def expression(given: str, default: str) -> Expression:
        return Expression(given, own.timestamp_of) if given else Expression(default, selector)

    return ResourceQueries(
        mean_free=expression(own.mean_free, f"avg_over_time({points})"),
        deviation=expression(own.deviation, f"stddev_over_time({points})"),
        forecast_free=Expression(own.forecast_free, own.timestamp_of) if own.forecast_free else None,
        capacity=expression(own.capacity, capacity),
        window_s=window_s,
        scale=MILLI if resource == CPU else 1.0,
    )
