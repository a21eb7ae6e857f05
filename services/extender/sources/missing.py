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

PROMETHEUS_REMEDY = 'add sources.prometheus with the URL of your server, such as urls: ["http://127.0.0.1:9090"]'


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
        needed = f"annotation {annotated[0]} needs" if len(annotated) == 1 else f"annotations {', '.join(annotated)} need"
        errors[KUBERNETES] = f"the {needed} sources.kubernetes, which is not configured"
    return errors


def prometheus_violation(agent: Agent, settings: SourceSettings) -> str:
    """Return the reason why the agent knows no node because Prometheus is not configured, or an empty text.

    An agent can be used if a source answers at least one of its queries: a direct scrape answers rates and gauges, and the API server
    annotations.
    """
    queries = dict.fromkeys(agent.queries)
    expressions = [query for query in queries if isinstance(query, Expression)]
    measured = [query for query in queries if isinstance(query, (Rate, Gauge))]
    is_answered = settings.prometheus is not None or (measured and settings.node_exporter is not None)
    if is_answered or not (expressions or measured):
        return ""
    if settings.kubernetes is not None and len(expressions) + len(measured) < len(queries):
        return ""
    sources = "sources.prometheus" if expressions else "sources.prometheus or sources.node_exporter"
    if settings.node_exporter is not None:
        return f"the agent {agent.name} needs {sources}, because a direct scrape answers no PromQL: replace sources.node_exporter by it"
    return f"the agent {agent.name} needs {sources}: {PROMETHEUS_REMEDY}"


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
