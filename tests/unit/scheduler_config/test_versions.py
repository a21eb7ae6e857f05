# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kubernetes versions and the API versions that each of them reads."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.problem import SchedulerConfigError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.versions import (
    ConfigTarget,
    minor_of,
    served_by,
    short_name,
    target_of,
)


@pytest.mark.parametrize(
    ("version", "newest"),
    [
        ("1.36", "v1"),
        ("v1.36.3", "v1"),
        ("1.25.16", "v1"),
        ("1.24", "v1beta3"),
        ("v1.22.17", "v1beta2"),
        ("1.99", "v1"),
    ],
)
def test_the_newest_version_that_a_kubernetes_version_reads_is_chosen(version: str, newest: str) -> None:
    assert target_of(version, None).api_version == newest


@pytest.mark.parametrize("text", ["1.36", "v1.36", "1.36.3", "v1.36.3", "v1.36.3+k3s1", "1.36.0-rc.1", " 1.36 "])
def test_forms_of_a_kubernetes_version(text: str) -> None:
    assert minor_of(text) == 36


@pytest.mark.parametrize("text", ["36", "2.1", "latest", "1.x", "", "1.21", "1.36."])
def test_another_text_is_no_version(text: str) -> None:
    with pytest.raises(SchedulerConfigError, match="kubernetes_version: "):
        minor_of(text)


def test_the_served_versions_are_those_of_each_release() -> None:
    assert [served_by(minor) for minor in (22, 24, 26, 28, 29)] == [
        ["v1beta2"],
        ["v1beta2", "v1beta3"],
        ["v1beta2", "v1beta3", "v1"],
        ["v1beta3", "v1"],
        ["v1"],
    ]


def test_an_api_version_that_the_kubernetes_version_does_not_read_is_refused() -> None:
    with pytest.raises(
        SchedulerConfigError, match=r"api_version: Kubernetes 1.36 does not read kubescheduler.config.k8s.io/v1beta3; use v1,"
    ):
        target_of("1.36", "v1beta3")


@pytest.mark.parametrize("text", ["v1beta3", "kubescheduler.config.k8s.io/v1beta3"])
def test_both_forms_of_an_api_version(text: str) -> None:
    assert target_of(None, text) == ConfigTarget("v1beta3", None) and target_of("1.27", text) == ConfigTarget("v1beta3", 27)


@pytest.mark.parametrize("text", ["v2", "v1beta1", "kubescheduler.config.k8s.io/v1alpha2", "apps/v1", "kubescheduler.config.k8s.io/"])
def test_another_api_version_is_refused_with_the_supported_ones(text: str) -> None:
    with pytest.raises(SchedulerConfigError, match=r"use one of kubescheduler\.config\.k8s\.io/v1beta2, "):
        target_of(None, text)
    with pytest.raises(SchedulerConfigError, match="use one of"):
        short_name(None)


def test_a_version_after_the_tables_uses_the_newest_one() -> None:
    assert ConfigTarget("v1", 99).minors == ConfigTarget("v1", 36).minors and ConfigTarget("v1", 99).has_tables


def test_a_version_before_the_tables_has_none() -> None:
    assert not ConfigTarget("v1beta3", 24).has_tables


def test_without_a_kubernetes_version_the_tables_of_all_versions_that_read_the_api_version_apply() -> None:
    assert ConfigTarget("v1", None).minors == (26, 36) and ConfigTarget("v1beta3", None).minors == (26, 28)
