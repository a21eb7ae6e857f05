# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles that docs/rescue.md shows are enough, and no more than what is asked for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from lab.audit import COMPLETE, STARTED
from tests.integration.rescue.rescues import Rescues
from tests.integration.rescue.scene import SYSTEM, Scene

GUIDE = (Path(__file__).parents[3] / "docs" / "rescue.md").read_text()
(ROLES,) = re.findall(r"^```yaml\n(# for k8s_critical_rescue.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
RARE = {("", "events", "list"), ("", "nodes", "get")}
"""Asked for where a scheduler without a Lease has been silent, and before a patch."""


def bound(role: dict[str, Any], account: str = "rescuer") -> dict[str, Any]:
    """The binding of a role to the service account."""
    metadata = {key: role["metadata"][key] for key in ("name", "namespace") if key in role["metadata"]}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{role['kind']}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": SYSTEM}],
    }


def test_the_documented_roles_are_enough(scene: Scene, rescues: Rescues) -> None:
    roles = list(yaml.safe_load_all(ROLES))
    kubeconfig = scene.cluster.service_account("rescuer", namespace=SYSTEM, cluster_role=None)
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    refused = rescues.result(rescues.start(kubeconfig=str(kubeconfig), name=pod))
    assert refused["failed"] and "Grant the verb 'list' on pods" in refused["msg"]

    scene.cluster.apply([*roles, *map(bound, roles)])
    mark = scene.cluster.audit().mark()
    for another in (lambda: pod, lambda: _one_without_the_toleration(scene)):
        done = rescues.result(rescues.start(kubeconfig=str(kubeconfig), name=another()))
        assert done["pods"][0]["status"] == "rescued" and not done.get("warnings"), done
    events = list(scene.cluster.audit().events(since=mark, user=f"system:serviceaccount:{SYSTEM}:rescuer", stages=(STARTED, COMPLETE)))
    assert not [event for event in events if event.code in (401, 403)]
    asked = {
        (event.group, f"{event.resource}/{event.subresource}" if event.subresource else event.resource, event.verb)
        for event in events
        if event.resource
    }
    rules = [rule for role in roles for rule in role["rules"]]
    granted = {(group, name, verb) for rule in rules for group in rule["apiGroups"] for name in rule["resources"] for verb in rule["verbs"]}
    assert granted - RARE <= asked <= granted


def _one_without_the_toleration(scene: Scene) -> str:
    (node,) = scene.nodes()
    scene.occupant("other", node, cpu="800m")
    return scene.critical("nominated", cpu="700m", tolerates=False)


def test_nobody_is_evicted_for_a_pod_that_may_not_be_nominated(scene: Scene, rescues: Rescues) -> None:
    cluster_role, role = yaml.safe_load_all(ROLES)
    role["rules"] = [rule for rule in role["rules"] if rule["resources"] != ["pods/status"]]
    for item in (cluster_role, role):
        item["metadata"]["name"] = "less"
    kubeconfig = scene.cluster.service_account("less", namespace=SYSTEM, cluster_role=None)
    scene.cluster.apply([cluster_role, role, *(bound(item, "less") for item in (cluster_role, role))])
    pod = _one_without_the_toleration(scene)
    for check_mode in (True, False):
        refused = rescues.result(rescues.start(kubeconfig=str(kubeconfig), name=pod, check_mode=check_mode))
        assert refused["failed"] and "Grant the verb 'patch' on pods/status in namespace kube-system" in refused["msg"]
    assert scene.evictions() == []
