# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A check without workloads names the cause: namespaces that cannot be read, or a label selector that matches nothing."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import ansible_connection
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot, Skipped
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.check import run as check_run
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.spread_report import SpreadReport
from ansible_collections.onprem.kube_scheduling.plugins.modules import k8s_spread_check

from tests.unit.support.cluster import ClusterBuilder, workers

ALLOW = {"kube-scheduling.onprem/spread": "allow"}


def cluster() -> ClusterBuilder:
    """Two namespaces with the annotation and one without it."""
    built = workers(2)
    built.namespaces.clear()
    built.namespace("shop", ALLOW)
    built.namespace("web", ALLOW)
    built.namespace("private")
    return built


def closed(*namespaces: str) -> ClusterSnapshot:
    skipped = [Skipped("statefulsets", name, f"cannot list statefulsets in namespace {name}") for name in namespaces]
    return cluster().snapshot(skipped=skipped)


def check(*namespaces: str, **options: t.Any) -> SpreadReport:
    return check_spread(closed(*namespaces), CheckOptions(**options))


def test_missing_rights_in_all_chosen_namespaces_are_named_as_the_cause() -> None:
    report = check("shop", "web", "private")
    assert str(report.reason) == (
        "unreadable: 2 namespaces have the annotation kube-scheduling.onprem/spread=allow and none can be read "
        "(shop: cannot list statefulsets in namespace shop)"
    )
    assert sorted(report.skipped_namespaces) == ["shop", "web"]


def test_where_one_chosen_namespace_can_be_read_it_is_judged_and_the_other_is_named() -> None:
    report = check("shop", "private")
    assert report.reason is None and report.namespaces == 1 and list(report.skipped_namespaces) == ["shop"]


def test_a_namespace_without_the_annotation_needs_no_rights() -> None:
    report = check("private", namespaces=["private"])
    assert str(report.reason).startswith("no_namespace: ") and report.skipped_namespaces["private"].code == "not_annotated"


def test_namespaces_that_were_asked_for_by_name_and_cannot_be_read_are_the_cause() -> None:
    report = check("shop", namespaces=["shop", "private"])
    assert str(report.reason) == "unreadable: 1 namespace is chosen and none can be read (shop: cannot list statefulsets in namespace shop)"


def test_options_that_exclude_all_namespaces_are_named() -> None:
    reason = str(check(exclude_namespaces=("shop", "web")).reason)
    assert "no namespace has the annotation kube-scheduling.onprem/spread=allow and is chosen; exclude_namespaces are shop,web" in reason


class _Module:
    """A replacement for AnsibleModule."""

    def __init__(self) -> None:
        self.params: dict[str, t.Any] = {"include_healthy": True, "include_nodes": True}
        self.failed: bool | None = None
        self.result: dict[str, t.Any] = {}

    def exit_json(self, **result: t.Any) -> t.NoReturn:
        self.failed, self.result = False, result
        raise SystemExit(0)

    def fail_json(self, **result: t.Any) -> t.NoReturn:
        self.failed, self.result = True, result
        raise SystemExit(1)


def run(monkeypatch: pytest.MonkeyPatch, snapshot: ClusterSnapshot, *label_selectors: str) -> _Module:
    module = _Module()
    monkeypatch.setattr(ansible_connection, "make_module", lambda _spec: module)
    monkeypatch.setattr(k8s_spread_check, "check_options", lambda _params: CheckOptions(label_selectors=label_selectors))
    monkeypatch.setattr(k8s_spread_check, "connect", lambda _module, name: name)
    monkeypatch.setattr(check_run, "read_snapshot", lambda _api, **_options: snapshot)
    with pytest.raises(SystemExit):
        k8s_spread_check.main()
    return module


def test_the_module_fails_with_all_of_its_result_where_no_chosen_namespace_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    module = run(monkeypatch, closed("shop", "web"))
    assert module.failed is True and module.result["msg"] == module.result["message"] != ""
    assert module.result["reason"] == "unreadable" and len(module.result["node_list"]) == 2


def test_a_label_selector_that_matches_nothing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = run(monkeypatch, closed(), "app=web", "!old")
    assert (module.failed, module.result["reason"]) == (False, "no_workload")
    assert " the labels app=web,!old; check label_selectors" in module.result["message"]


def test_namespaces_without_workloads_are_no_mistake_without_a_label_selector(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, closed()).result["reason"] == run(monkeypatch, closed()).result["message"] == ""
