# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The templates of scheduler configurations."""

from __future__ import annotations

import pytest

from lab.errors import LabError
from lab.second_scheduler import render


def test_values_are_inserted_into_the_template() -> None:
    configuration = render("extender", url="https://127.0.0.1:8443", scheduler_name="network-traffic")
    (extender,) = configuration["extenders"]
    assert extender["urlPrefix"] == "https://127.0.0.1:8443/scheduler"
    assert configuration["profiles"] == [{"schedulerName": "network-traffic"}]


def test_a_missing_value_is_named() -> None:
    with pytest.raises(LabError, match="'scheduler_name'"):
        render("extender", url="http://127.0.0.1:8080")
