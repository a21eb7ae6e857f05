# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The age of a value is the difference of two times of one clock, and no time in the future makes a value fresh."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.sources.clock import Clock


@pytest.mark.parametrize(("time_s", "at_s"), [(990.0, 40.0), (1030.0, 50.0), (1060.0, 50.0), (1061.0, None)])
def test_the_age_is_by_the_clock_of_the_server(time_s: float, at_s: float | None) -> None:
    assert Clock(now_s=50.0, server_now_s=1000.0).monotonic(time_s) == at_s
