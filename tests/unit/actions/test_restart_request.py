# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The error of a task about a workload that was named."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.actions.restart_request import result_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.actions.rollout_restart import RestartResult, Target
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reasons import Reason

WEB = Target("Deployment", "shop", "web")


@pytest.mark.parametrize(
    ("action", "reason", "missing", "said"),
    [
        ("skipped", "vanished", True, "there is no Deployment web in namespace shop; check the spelling and the cluster"),
        ("failed", "vanished", True, "Deployment shop/web: failed, vanished: so"),
        ("refused", "cooldown", False, "Deployment shop/web: refused, cooldown: so, or set cooldown to 0"),
        ("refused", "budget", False, "Deployment shop/web: refused, budget: so"),
    ],
)
def test_what_was_named_and_not_done_is_an_error(action: str, reason: str, missing: bool, said: str) -> None:
    result = result_of([RestartResult(WEB, action, Reason(reason, "so"), missing=missing)], named=True)
    assert (result["failed"], result["msg"]) == (True, said)
    assert (result["workloads"][0]["action"], result["workloads"][0]["reason"]) == (action, f"{reason}: so")
