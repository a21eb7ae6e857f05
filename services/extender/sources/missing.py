# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The queries that no configured source answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..interface import Agent, Annotation, Expression, Query
from .settings import SourceSettings

WITHOUT_KUBERNETES = (
    "sources.kubernetes is not configured (kubernetes: {} configures it without settings): new pods are not counted before they are"
    " measured, nothing is learned from pods, and annotations and allocatable resources are not read"
)

PROMETHEUS_REMEDY = 'add sources.prometheus with the URL of your server, such as urls: ["http://127.0.0.1:9090"]'


def unanswered_queries(queries: Iterable[Query], settings: SourceSettings) -> dict[str, str]:
    """Return the error of the queries without a source, by the name of the source."""
    measured, annotated = _kinds(queries)
    errors = {}
    if measured and settings.prometheus is None and settings.node_exporter is None:
        need = "query needs" if len(measured) == 1 else "queries need"
        errors["prometheus"] = f"{len(measured)} {need} {_sources_of(measured)}, which is not configured"
    if annotated and settings.kubernetes is None:
        needed = f"annotation {annotated[0]} needs" if len(annotated) == 1 else f"annotations {', '.join(annotated)} need"
        errors["kubernetes"] = f"the {needed} sources.kubernetes, which is not configured"
    return errors


def prometheus_violation(agent: Agent, settings: SourceSettings) -> str:
    """Return the reason why the agent knows no node because Prometheus is not configured, or an empty text.

    An agent can be used if a source answers at least one of its queries: a direct scrape answers rates and gauges, and the API server
    annotations.
    """
    measured, annotated = _kinds(agent.queries)
    is_scraped = settings.node_exporter is not None and not all(isinstance(query, Expression) for query in measured)
    if not measured or settings.prometheus is not None or is_scraped or (annotated and settings.kubernetes is not None):
        return ""
    needed = f"the agent {agent.name} needs {_sources_of(measured)}"
    if settings.node_exporter is not None:
        return f"{needed}, because a direct scrape answers no PromQL: replace sources.node_exporter by it"
    return f"{needed}: {PROMETHEUS_REMEDY}"


def missing_sources(settings: SourceSettings, agents: Sequence[Agent]) -> list[str]:
    """Return sentences about the sources that these agents need and that are not configured."""
    found = [
        f"the agent {agent.name} knows no node: {text}" for agent in agents for text in unanswered_queries(agent.queries, settings).values()
    ]
    if settings.kubernetes is None and any(agent.queries or agent.per_demand for agent in agents):
        found.append(WITHOUT_KUBERNETES)
    return list(dict.fromkeys(found))


def _kinds(queries: Iterable[Query]) -> tuple[list[Query], list[str]]:
    """Return the queries that are measured, and the keys of annotations, each once."""
    known = dict.fromkeys(queries)
    return [query for query in known if not isinstance(query, Annotation)], [query.key for query in known if isinstance(query, Annotation)]


def _sources_of(measured: Iterable[Query]) -> str:
    """Return the names of the sources that can answer these queries."""
    only_prometheus = any(isinstance(query, Expression) for query in measured)
    return "sources.prometheus" if only_prometheus else "sources.prometheus or sources.node_exporter"
