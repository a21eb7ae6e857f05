# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Options of a rescue are checked before anything is asked of a cluster."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.option_values import OptionError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions, RescueRequest, rescue_options


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"grace_period": 0}, "grace_period is 0, "),
        ({"grace_period": -1}, "grace_period is -1: it must be at least 1"),
        ({"grace_period": -1, "allow_zero_grace": True}, "grace_period is -1: it must be at least 0"),
        ({"max_victims": 0}, "max_victims is 0: it must be at least 1"),
        ({"namespaces": []}, "namespaces is empty"),
        ({"label_selectors": []}, "label_selectors: is empty"),
        ({"namespaces": [""]}, "namespaces is empty"),
        ({"namespaces": ["kube-system", "Kube_System"]}, "namespaces contains 'Kube_System', "),
        ({"hold": "maybe"}, "hold is 'maybe': use one of auto, taint, none"),
        ({"honor_critical_annotation": True}, "honor_critical_annotation is True: use one of kube-system, all, none"),
        ({"hold_taint_key": "two words"}, "hold_taint_key is 'two words'"),
        ({"hold_taint_key": ""}, "hold_taint_key is ''"),
        ({"hold_taint_key": "/x"}, "hold_taint_key is '/x'"),
        ({"settle_time": -1}, "settle_time is -1: it must be at least 0"),
        ({"wait_timeout": 0}, "wait_timeout is 0: it must be at least 1"),
        ({"wait_timeout": 10**12}, "wait_timeout is 1000000000000: the maximum is a year, 31536000 seconds"),
        ({"wait_timeout": 7081}, "wait_timeout is 7081 and evict_timeout is 120: together the maximum is 7200 seconds"),
        ({"evict_timeout": 31_536_001}, "evict_timeout is 31536001: the maximum is a year, 31536000 seconds"),
    ],
)
def test_a_mistake_is_named(params: dict[str, t.Any], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        rescue_options(params)
    assert str(caught.value).startswith(said)


def test_what_is_not_given_has_its_default() -> None:
    assert rescue_options({"max_victims": None, "state": "rescued", "kubeconfig": "x"}) == RescueOptions()
    assert rescue_options({"namespaces": ["a", "b", "a"]}).namespaces == ("a", "b")
    assert rescue_options({"grace_period": 0, "allow_zero_grace": True}).grace_period_s == 0
    assert rescue_options({"hold_taint_key": "example.com/held"}).hold_taint_key == "example.com/held"


def test_times_may_be_numbers_or_have_a_unit() -> None:
    options = rescue_options({"grace_period": "45", "settle_time": "3s", "wait_timeout": "5m", "evict_timeout": 60})
    assert (options.grace_period_s, options.settle_time_s, options.wait_timeout_s, options.evict_timeout_s) == (45, 3, 300, 60)


@pytest.mark.parametrize("value", ["soon", "1.5", "-", "", "30 s"])
def test_a_time_that_is_no_duration_is_refused_by_name(value: str) -> None:
    with pytest.raises(OptionError, match=r"^wait_timeout: .* is not a"):
        rescue_options({"wait_timeout": value})


def test_several_label_selectors_must_all_match() -> None:
    request = RescueRequest(RescueOptions(), label_selectors=("app in (dns", " cni)", "tier=a", ""))
    assert request.label_selector == "app in (dns, cni),tier=a"
