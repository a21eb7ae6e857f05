# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The page /explain: the reasons for the scores of one pod."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from urllib.parse import quote

from ...engine.explanation import IN_TREE_WEIGHTS, AgentRow, NodeRow, ProfileRows
from ...engine.profile import FILTER, LOW, MEDIAN
from ...engine.recent_pods import RecentPod
from . import html

UNKNOWN = {
    MEDIAN: "Where an agent's score is unknown, it counts as the median of the known ones.",
    LOW: "Where an agent's score is unknown, it counts as 0.",
    FILTER: "Where an agent's score is unknown, it counts as 0, and the node is rejected if the scheduler has a filterVerb.",
}
"""The sentence about nodes without a fresh value, by the setting ``unknown`` of the profile."""

MAX_NODES = 200
"""Nodes on a page. The JSON has all."""

TITLES = ("Node", "Score", "Points", "Exact", "Agent", "Weight", "Agent's score", "Value", "Age", "Explanation")
NUMBERS = frozenset(TITLES) - {"Node", "Agent", "Explanation"}


def explain_page(cluster: str, pod: RecentPod, rows: ProfileRows, faults: Sequence[str] = ()) -> bytes:
    """Return the page of a pod in ``cluster``. ``faults``: HTML for the top."""
    asked_at = datetime.fromtimestamp(pod.asked_at_s, UTC)
    parts = [
        *faults,
        html.paragraph(
            f"The scheduler asked at {asked_at:%Y-%m-%d %H:%M:%S} UTC about {pod.nodes} nodes. The scores below are those of now."
            f" The score is the whole part of the exact score plus {rows.offset:.3f}, which is the offset of this pod."
            " The table has all nodes, also those that the scheduler did not ask about."
        ),
        *profile_parts(rows),
        _weights(rows.weight),
    ]
    return html.page(f"Pod {pod.namespace}/{pod.name}, profile {rows.profile}: {cluster}".rstrip(": "), parts, refresh=False)


def refusal_page(title: str, text: str, known: Sequence[RecentPod]) -> bytes:
    """Return the page for a pod that cannot be explained, or a parameter that cannot be used."""
    parts = [html.paragraph(f"{text[0].upper()}{text[1:]}", "wrong"), html.paragraph("These are the last pods:"), pods_table(known)]
    return html.page(title, parts, refresh=False)


def profile_parts(rows: ProfileRows) -> list[str]:
    """Return the nodes of a profile: what they have in common, the table of all, and those that the filter rejects."""
    if not rows.has_judgements:
        return [html.paragraph("No agent of this profile judges nodes, so all nodes have the same score, and none is rejected.")]
    parts = []
    if not rows.has_scores:
        parts.append(html.paragraph("The agents of this profile only filter, so all nodes have the same score."))
    if rows.neutral:
        parts.append(html.paragraph("No value is known for any node, so all nodes are equal.", "wrong"))
    return [*parts, _nodes_table(rows), *(_decisions(rows) if rows.filters else ())]


def _decisions(rows: ProfileRows) -> list[str]:
    """Return the decisions of the filter."""
    rejected = [node for node in rows.nodes if node.rejection]
    if not rejected:
        return [html.paragraph(f"The filter rejects none of the {len(rows.nodes)} nodes.")]
    parts = [
        html.paragraph(f"The filter rejects {len(rejected)} of the {len(rows.nodes)} nodes, if the scheduler has a filterVerb:"),
        html.table(("Rejected node", "Reason"), ((escape(node.node), escape(node.rejection)) for node in rejected[:MAX_NODES])),
    ]
    more = len(rejected) - MAX_NODES
    return [*parts, html.paragraph(f"{more} more rejected nodes are only in the JSON (?format=json).")] if more > 0 else parts


def _nodes_table(rows: ProfileRows) -> str:
    """Return the table of the nodes, with one row for each agent."""
    cells = [row for node in rows.nodes[:MAX_NODES] for row in _node_cells(node)]
    more = len(rows.nodes) - MAX_NODES
    note = html.paragraph(f"{more} nodes with lower scores are only in the JSON (?format=json).") if more > 0 else ""
    return html.table(TITLES, cells, NUMBERS) + note + _note_on_unknown(rows)


def _note_on_unknown(rows: ProfileRows) -> str:
    """Return what the nodes with an unknown score get, or an empty text if there are none."""
    has_unknown = any(agent.score is None and agent.can_score for node in rows.nodes for agent in node.agents)
    return html.paragraph(UNKNOWN[rows.unknown], "dim") if has_unknown and not rows.neutral else ""


def pods_table(pods: Sequence[RecentPod]) -> str:
    """Return the table of pods, with links to their pages."""
    cells = []
    for pod in pods:
        name = f"{pod.namespace}/{pod.name}"
        link = f'<a href="explain?pod={quote(name)}&amp;format=html">{escape(name)}</a>'
        cells.append((link, escape(pod.scheduler_name), str(pod.nodes), f"{datetime.fromtimestamp(pod.asked_at_s, UTC):%H:%M:%S} UTC"))
    return html.table(("Pod", "Profile", "Nodes", "Asked"), cells, ("Nodes", "Asked"))


def _node_cells(node: NodeRow) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for number, agent in enumerate(node.agents):
        score = html.number(agent.score, 2) if agent.score is not None else '<span class="old">unknown</span>'
        exact = f'<meter min="0" max="10" value="{node.exact:.2f}"></meter> {node.exact:.2f}'
        first = (escape(node.node), f"<b>{node.score}</b>", f"{node.points:g}", exact)
        found.append(
            (
                *(first if number == 0 else ("", "", "", "")),
                escape(agent.agent),
                f"{agent.weight:g}" if agent.can_score else "–",
                score if agent.can_score else "–",
                html.number(agent.value, unit=agent.unit),
                html.age(agent.age_s),
                escape(agent.explanation) + _rejection(agent),
            )
        )
    return found


def _rejection(agent: AgentRow) -> str:
    """Return the reason of an agent to reject the node. It has no effect without ``filter: true``."""
    if not agent.rejection:
        return ""
    if agent.filters:
        return f'<div class="wrong">rejected: {escape(agent.rejection)}</div>'
    return f'<div class="dim">not rejected, because filter is false: {escape(agent.rejection)}</div>'


def _weights(weight: float) -> str:
    listed = ", ".join(f"{name} {weight * 100}" for name, weight in IN_TREE_WEIGHTS.items())
    return "<h2>Beside the scheduler's plugins</h2>" + html.paragraph(
        "The scheduler adds score × extender weight × 10 to the points of each node. The page shows the points for the extender weight"
        f" {weight:g}; add &weight=N to the address for another one. The plugins of the default profile add at most: {listed}."
        " An extender with the weight 1 therefore counts as much as a plugin with the weight 1."
    )
