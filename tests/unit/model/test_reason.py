# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Reasons and blockers have the same keys in all results."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Blocker, Reason, reason_fields


@pytest.mark.parametrize(
    ("reason", "fields"),
    [
        (Reason("single_domain"), {"reason": "single_domain", "message": ""}),
        (Reason("paused", "Deployment app/web is paused"), {"reason": "paused", "message": "Deployment app/web is paused"}),
        (None, {"reason": "", "message": ""}),
    ],
)
def test_a_result_has_the_code_as_reason_and_the_text_as_message(reason: Reason | None, fields: dict[str, str]) -> None:
    assert reason_fields(reason) == fields


def test_a_blocker_also_has_the_number_of_nodes() -> None:
    expected = {"reason": "insufficient_resources", "message": "Insufficient cpu", "nodes": 3}
    assert Blocker(Reason("insufficient_resources", "Insufficient cpu"), 3).fields() == expected
