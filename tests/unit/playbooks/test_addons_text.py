# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The sentences about add-ons, from the results of the module."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.filter.addons_text import addons_text

HOST = "kubernetes.io/hostname"
DNS = "Deployment kube-system/coredns"
OFF = "-e '{\"site_spread_addons\": []}' leaves the add-ons out."


def result(action: str, reason: str = "", message: str = "", evicted: int = 0, places: dict[str, int] | None = None) -> dict[str, Any]:
    identity = {"kind": "Deployment", "namespace": "kube-system", "name": "coredns"}
    pods = [{"pod": f"coredns-{number}", "node": "cp-1"} for number in range(evicted)]
    workload = {"action": action, "reason": reason, "message": message, "evicted": pods}
    workload["expected" if action == "would_evict" else "after"] = {HOST: places} if places else {}
    return {"workloads": [identity | workload], "changed": bool(evicted)}


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (result("skipped", "spread", "no replica can move to a better domain"), []),
        (
            result("evicted", "collapsed", "all 2 in cp-1", 1, {"cp-1": 1, "worker": 1}),
            [f"{DNS}: 1 pod was evicted: all 2 in cp-1. Its replicas now: cp-1=1, worker=1."],
        ),
        (
            result("would_evict", "collapsed", "all 3 in cp-1", 2, {"cp-1": 1, "worker": 2}),
            [f"{DNS}: 2 pods would be evicted: all 3 in cp-1. Its replicas then: cp-1=1, worker=2."],
        ),
        (
            result("skipped", "single_domain", "only one"),
            [f"{DNS}: fewer than two nodes can run its pods. The next run of this playbook spreads them as soon as a second node can."],
        ),
        (result("refused", "no_ready_replica", "none is ready"), [f"{DNS} was not spread: none is ready."]),
        (result("failed", "error", "it is forbidden."), [f"{DNS} was not spread: it is forbidden. {OFF}"]),
        (result("skipped", "vanished", f"there is no {DNS}"), [f"There is no {DNS}, so it is not spread."]),
        (
            {"failed": False, "msg": "the API server does not answer"},
            [f"The add-ons were not spread: the API server does not answer. {OFF}"],
        ),
    ],
)
def test_each_result_has_its_sentence_and_none_of_them_fails_the_playbook(found: dict[str, Any], lines: list[str]) -> None:
    assert addons_text([found]) == {"lines": lines, "error": ""}


def test_a_missing_replacement_fails_the_playbook() -> None:
    failed = result("failed", "replacement_not_ready", "the replacement is not ready after 600 s", 1)
    assert addons_text([failed, result("skipped", "single_domain")])["error"].startswith(f"{DNS}: 1 pod was evicted: the replacement")
