# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Label selectors as the API takes them in a query."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.meta import LabelSelector
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.selectors.label_selector import as_query

from tests.unit.support.cluster import Json, struct


@pytest.mark.parametrize(
    ("selector", "query"),
    [
        ({}, ""),
        ({"matchLabels": {"tier": "web", "app": "shop"}}, "app=shop,tier=web"),
        ({"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "b"]}]}, "app in (a,b)"),
        ({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["a"]}]}, "app notin (a)"),
        ({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]}, "a=b,app"),
        ({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, "!app"),
    ],
)
def test_a_selector_becomes_a_query(selector: Json, query: str) -> None:
    assert as_query(struct(LabelSelector, selector)) == query
