# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Spread constraints of random pods."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.integration.oracle.pods_together import Draw, Json

TOPOLOGY_KEYS = ("kubernetes.io/hostname", "zone", "zone", "disk", "cores")


@st.composite
def spread_constraints(draw: Draw) -> list[Json]:
    """One or two constraints over different keys, most of them hard."""
    keys = draw(st.lists(st.sampled_from(TOPOLOGY_KEYS), min_size=1, max_size=2, unique=True))
    return [draw(_constraints(key)) for key in keys]


@st.composite
def _constraints(draw: Draw, topology_key: str) -> Json:
    found = {"topologyKey": topology_key, "maxSkew": draw(st.sampled_from((1, 1, 1, 2, 3)))}
    found["whenUnsatisfiable"] = draw(st.sampled_from(("DoNotSchedule", "DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")))
    optional = {
        "nodeAffinityPolicy": st.sampled_from((None, "Honor", "Ignore")),
        "nodeTaintsPolicy": st.sampled_from((None, "Honor", "Ignore")),
    }
    if found["whenUnsatisfiable"] == "DoNotSchedule":
        optional["minDomains"] = st.sampled_from((None, None, 1, 2, 4, 4, 14))
    drawn = {name: draw(strategy) for name, strategy in optional.items()}
    drawn["labelSelector"] = draw(_selectors())
    if drawn["labelSelector"] is not None:
        # The API server refuses a key that the selector speaks of as well.
        free = [key for key in ("app", "tier", "absent") if key not in str(drawn["labelSelector"])]
        drawn["matchLabelKeys"] = draw(st.none() | st.lists(st.sampled_from(free), max_size=2, unique=True))
    return found | {name: value for name, value in drawn.items() if value is not None}


def _selectors() -> st.SearchStrategy[Json | None]:
    expressions = (
        {"key": "app", "operator": "In", "values": ["web", "other"]},
        {"key": "app", "operator": "In", "values": ["web", "db"]},
        {"key": "app", "operator": "NotIn", "values": ["web"]},
        {"key": "tier", "operator": "Exists"},
        {"key": "tier", "operator": "DoesNotExist"},
    )
    by_expressions = st.lists(st.sampled_from(expressions), min_size=1, max_size=2).map(lambda found: {"matchExpressions": found})
    by_label = st.sampled_from(({"app": "web"}, {"app": "db"}, {"app": "web", "tier": "1"})).map(lambda found: {"matchLabels": found})
    without_conditions = st.sampled_from((None, {}))
    return st.one_of(by_label, by_label, by_expressions, without_conditions)
