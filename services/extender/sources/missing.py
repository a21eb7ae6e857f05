# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The queries that no configured source answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..interface import Agent, Annotation, Expression, Gauge, Query, Rate
from .settings import SourceSettings

PROMETHEUS, KUBERNETES = "prometheus", "kubernetes"
WITHOUT_KUBERNETES = (
    "sources.kubernetes is not configured (kubernetes: {} configures it without settings): new pods are not counted before they are"
    " measured, nothing is learned from pods, and annotations and allocatable resources are not read"
)


def unanswered_queries(queries: Iterable[Query], *, is_measured: bool, has_cluster: bool) -> dict[str, str]:
    """Return the error of the queries without a source, by the name of the source.

    ``is_measured``: there is a Prometheus or a direct scrape. ``has_cluster``: there is an API server.
    """
    known = list(queries)
    expressions = [query for query in known if isinstance(query, Expression)]
    measured = [query for query in known if isinstance(query, (Rate, Gauge))] + expressions
    annotated = [query.key for query in known if isinstance(query, Annotation)]
    errors = {}
    if measured and not is_measured:
        source = "sources.prometheus" if expressions else "sources.prometheus or sources.node_exporter"
        errors[PROMETHEUS] = f"{len(measured)} {'query needs' if len(measured) == 1 else 'queries need'} {source}, which is not configured"
    if annotated and not has_cluster:
        errors[KUBERNETES] = f"the annotations {', '.join(annotated)} need sources.kubernetes, which is not configured"
    return errors


def missing_sources(settings: SourceSettings, agents: Sequence[Agent]) -> list[str]:
    """Return sentences about the sources that these agents need and that are not configured."""
    queries = list(dict.fromkeys(query for agent in agents for query in agent.queries))
    is_measured, has_cluster = settings.prometheus is not None or settings.node_exporter is not None, settings.kubernetes is not None
    found = []
    for agent in dict.fromkeys(agents):
        unanswered = unanswered_queries(dict.fromkeys(agent.queries), is_measured=is_measured, has_cluster=has_cluster)
        found += [f"the agent {agent.name} knows no node: {text}" for text in unanswered.values()]
    found = list(dict.fromkeys(found))
    if not has_cluster and (queries or any(agent.per_demand for agent in agents)):
        found.append(WITHOUT_KUBERNETES)
    return found
