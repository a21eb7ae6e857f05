# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The error of a task about a workload that was named."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import RequestTarget, api_error
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.restart.result import RestartResult, restart_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.targets import Target

WEB = Target("Deployment", "shop", "web")


@pytest.mark.parametrize(
    ("action", "reason", "missing", "said"),
    [
        ("skipped", "vanished", True, "there is no Deployment web in namespace shop; check the spelling and the cluster"),
        ("failed", "vanished", True, "Deployment shop/web: failed (vanished): so"),
        ("refused", "cooldown", False, "Deployment shop/web: refused (cooldown): so, or set cooldown to 0"),
        ("refused", "budget", False, "Deployment shop/web: refused (budget): so"),
    ],
)
def test_what_was_named_and_not_done_is_an_error(action: str, reason: str, missing: bool, said: str) -> None:
    result = restart_result([RestartResult(WEB, action, Reason(reason, "so"), missing=missing)], named=True)
    assert (result["failed"], result["msg"]) == (True, said)
    (entry,) = result["workloads"]
    assert (entry["action"], entry["reason"], entry["message"]) == (action, reason, "so")


def lacking(name: str, verb: str = "patch") -> RestartResult:
    """A workload that could not be changed for want of a role, as the API server and ``kube/client/errors.py`` say it."""
    message = f'deployments.apps "{name}" is forbidden: User "reader" cannot {verb} resource "deployments" in API group "apps"'
    error = api_error(
        verb=verb, target=RequestTarget(f"deployments {name}/web", f"deployments in namespace {name}"), status=403, message=message
    )
    return RestartResult(Target("Deployment", name, "web"), "failed", Reason("error", str(error)), warnings=[f"no event: {error}"])


def test_a_missing_role_is_reported_once_with_all_workloads_that_lack_it() -> None:
    result = restart_result([lacking("a"), lacking("b"), lacking("c"), lacking("d", "get")], named=False)
    assert result["msg"].count("Grant the verb 'patch' on deployments") == 1
    assert "The same verb is missing for Deployment b/web, Deployment c/web; Deployment d/web: " in result["msg"]
    assert len(result["warnings"]) == 2
    assert all("Grant the verb" in entry["message"] for entry in result["workloads"]), "each entry has its own reason"
