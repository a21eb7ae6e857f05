# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The time for which a node is held for a pod."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.hold_policy import hold_duration_s
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import rescue_options


def test_hold_lasts_for_the_wait_for_the_scheduler_and_the_wait_for_refused_evictions() -> None:
    assert hold_duration_s(rescue_options({"wait_timeout": "10m", "evict_timeout": 0})) == 600
    assert hold_duration_s(rescue_options({"wait_timeout": 600, "evict_timeout": "120s"})) == 720
