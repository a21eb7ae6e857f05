# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The calls of the modules of awx.awx, and their errors without secrets."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.action.awx_objects import MODULES, calls, shown_error

HIDDEN = "AWX refuses its values. The reason is not shown, because it has one of them: create the object in AWX to read it"


def test_steps_of_a_workflow_are_created_before_they_are_linked_and_only_secrets_have_the_state() -> None:
    objects: dict[str, Any] = {f"controller_{kind}": [] for kind in MODULES}
    nodes = [{"identifier": "check", "success_nodes": ["verify"]}, {"identifier": "verify", "unified_job_template": "verify"}]
    workflow = {"name": "spread", "organization": "Default", "related": {}, "simplified_workflow_nodes": nodes}
    credential = {"name": "token", "inputs": {}, "update_secrets": False}
    objects |= {"controller_workflows": [workflow], "controller_credentials": [credential], "controller_inventories": [{"name": "nodes"}]}
    step, own = "workflow_job_template_node", {"workflow_job_template": "spread", "organization": "Default"}
    assert list(calls(objects, "exists")) == [
        ("credential", {"name": "token", "inputs": {}, "state": "exists"}),
        ("inventory", {"name": "nodes", "kind": ""}),
        ("workflow_job_template", {"name": "spread", "organization": "Default"}),
        (step, {"identifier": "check", **own}),
        (step, {"identifier": "verify", "unified_job_template": "verify", **own}),
        (step, {"identifier": "check", "success_nodes": ["verify"], "always_nodes": [], **own}),
        (step, {"identifier": "verify", "success_nodes": [], "always_nodes": [], **own}),
    ]


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        ("Invalid authentication credentials", "Invalid authentication credentials"),
        ("{'kubeconfig': ['users:\\n- token: s3cret']}", HIDDEN),
        ("not a URL: https://user:s3cret@127.0.0.1", HIDDEN),
        ('not a password: x7\\Qk"9,p', HIDDEN),
    ],
)
def test_an_error_with_a_line_of_a_secret_is_not_shown(error: str, shown: str) -> None:
    secrets = {
        "kubeconfig": "users:\n- token: s3cret\n",
        "headers": [{"url": "https://user:s3cret@127.0.0.1"}],
        "password": 'x7\\Qk"9,pL}2',
        "port": 25,
        "empty": "",
    }
    assert shown_error({"msg": error}, secrets) == shown
