# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The module k8s_spread_check around the check: what it spends no time on."""

from __future__ import annotations

import gc
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import ansible_connection
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions
from ansible_collections.onprem.kube_scheduling.plugins.modules import k8s_spread_check

from tests.unit.support.cluster import workers


class _Module:
    """Stands for AnsibleModule, and notes whether the garbage collector is on when the result is written."""

    def __init__(self) -> None:
        self.params: dict[str, t.Any] = {"include_healthy": True, "include_nodes": True}
        self.collecting: list[bool] = []
        self.result: dict[str, t.Any] = {}

    def exit_json(self, **result: t.Any) -> t.NoReturn:
        self.collecting.append(gc.isenabled())
        self.result = result
        raise SystemExit(0)


def test_no_search_for_cycles_runs_until_the_result_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    module = _Module()
    cluster = workers(4)
    cluster.deployment("web", ["worker-1"] * 3)
    snapshot = cluster.snapshot()
    monkeypatch.setattr(ansible_connection, "make_module", lambda _spec: module)
    monkeypatch.setattr(k8s_spread_check, "check_options", lambda _params: CheckOptions())
    monkeypatch.setattr(k8s_spread_check, "connect", lambda _module, name: name)
    monkeypatch.setattr(k8s_spread_check, "run_check", lambda _api, options: (snapshot, check_spread(snapshot, options)))
    with pytest.raises(SystemExit):
        k8s_spread_check.main()
    assert module.collecting == [False] and gc.isenabled()
    assert module.result["summary"]["collapsed"] == 1 and len(module.result["node_list"]) == 4
