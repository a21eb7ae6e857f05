# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Reasons as results carry them."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason, reason_text


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (Reason("single_domain"), "single_domain"),
        (Reason("paused", "Deployment app/web is paused"), "paused: Deployment app/web is paused"),
        (Reason("ignored", "the annotation x: ignore"), "ignored: the annotation x: ignore"),
        (None, ""),
    ],
)
def test_a_reason_in_words(reason: Reason | None, text: str) -> None:
    assert reason_text(reason) == text
