# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles that docs/rescue.md shows are enough, and no more than what is asked for."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import NamedTuple

import yaml

from lab.audit import COMPLETE, STARTED, AuditEvent
from tests.integration.rescue.rescues import Json, Rescues
from tests.integration.rescue.scene import ATTEMPTS, LEASE, SYSTEM, Scene

GUIDE = (Path(__file__).parents[3] / "docs" / "rescue.md").read_text()
(ROLES,) = re.findall(r"^```yaml\n(# for k8s_critical_rescue.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)
SILENT = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": "2026-01-01T00:00:00Z"}


class Grant(NamedTuple):
    """One verb on one resource; ``namespace`` and ``name`` are empty where the rule holds for all of them."""

    group: str
    resource: str
    verb: str
    namespace: str
    name: str

    def covers(self, event: AuditEvent) -> bool:
        resource = f"{event.resource}/{event.subresource}" if event.subresource else event.resource
        same = (self.group, self.resource, self.verb) == (event.group, resource, event.verb)
        return same and self.namespace in ("", event.namespace) and self.name in ("", event.name)


def granted(roles: list[Json]) -> set[Grant]:
    """Every single thing that the roles allow."""
    found = set()
    for role in roles:
        for rule in role["rules"]:
            names = rule.get("resourceNames", [""])
            for parts in itertools.product(rule["apiGroups"], rule["resources"], rule["verbs"]):
                found |= {Grant(*parts, role["metadata"].get("namespace", ""), name) for name in names}
    return found


def bound(role: Json, account: str = "rescuer") -> Json:
    """The binding of a role to the service account."""
    metadata = {key: role["metadata"][key] for key in ("name", "namespace") if key in role["metadata"]}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": f"{role['kind']}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": SYSTEM}],
    }


def test_the_documented_roles_are_enough_and_everything_in_them_is_used(scene: Scene, rescues: Rescues) -> None:
    """By verb, resource, namespace and name, over rescues that come to each kind of request."""
    roles = list(yaml.safe_load_all(ROLES))
    kubeconfig = scene.cluster.service_account("rescuer", namespace=SYSTEM, cluster_role=None)
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    refused = rescues.module(kubeconfig=str(kubeconfig), name=pod)
    assert refused["failed"] and "Grant the verb 'list' on pods" in refused["msg"]

    scene.cluster.apply([*roles, *map(bound, roles)])
    for path in (ATTEMPTS, LEASE):  # so that they are created
        scene.api.request("DELETE", path)
    mark = scene.cluster.audit().mark()
    for another in (lambda: pod, lambda: one_without_the_toleration(scene)):
        done = rescues.module(kubeconfig=str(kubeconfig), name=another())
        assert done["pods"][0]["status"] == "rescued" and not done.get("warnings"), done
    silent = rescues.module(kubeconfig=str(kubeconfig), name=one_of_a_silent_scheduler(scene))
    assert silent["failed"] and silent["pods"][0]["reason"] == "scheduler_silent", silent

    user = f"system:serviceaccount:{SYSTEM}:rescuer"
    events = list(scene.cluster.audit().events(since=mark, user=user, stages=(STARTED, COMPLETE)))
    assert [event for event in events if event.code in (401, 403)] == []
    asked = [event for event in events if event.resource]
    everything = granted(roles)
    assert [event for event in asked if not any(grant.covers(event) for grant in everything)] == []
    assert [grant for grant in everything if not any(grant.covers(event) for event in asked)] == []


def test_the_documented_roles_allow_nothing_else_in_the_namespace_of_the_control_plane(scene: Scene) -> None:
    """Every rule for objects that a name can restrict names them, and Events are written nowhere else."""
    roles = list(yaml.safe_load_all(ROLES))
    everything = granted(roles)
    for grant in everything:
        if grant.resource in ("configmaps", "leases"):
            assert grant.namespace == SYSTEM
            assert bool(grant.name) != (grant.verb == "create"), grant
        if grant.resource == "events":
            assert grant.namespace in (SYSTEM, "default"), grant
    kubeconfig = scene.cluster.service_account("narrow", namespace=SYSTEM, cluster_role=None)
    for role in roles:
        role["metadata"]["name"] = f"narrow-{role['metadata']['name']}"
    scene.cluster.apply([*roles, *(bound(role, "narrow") for role in roles)])
    for question in (
        ["get", "configmaps/kube-root-ca.crt", "-n", SYSTEM],
        ["list", "configmaps", "-n", SYSTEM],
        ["patch", "leases/kube-scheduler", "-n", SYSTEM],
        ["update", "leases/kube-scheduling-rescue", "-n", SYSTEM],
        ["create", "events", "-n", scene.namespace],
        ["patch", "pods/status", "-n", scene.namespace],
        ["patch", "pods", "-n", SYSTEM],
        ["delete", "pods", "-n", scene.namespace],
    ):
        assert _may(scene, "narrow", question) is False, question
    assert _may(scene, "narrow", ["patch", "configmaps/kube-scheduling-rescue", "-n", SYSTEM]) is True
    assert kubeconfig.exists()


def _may(scene: Scene, account: str, question: list[str]) -> bool:
    verb, target, _flag, namespace = question
    resource, _, name = target.partition("/")
    part = {"subresource": name, "name": ""} if resource == "pods" and name == "status" else {"name": name}
    group = "coordination.k8s.io" if resource == "leases" else ""
    spec = {
        "user": f"system:serviceaccount:{SYSTEM}:{account}",
        "resourceAttributes": {"verb": verb, "group": group, "resource": resource, "namespace": namespace, **part},
    }
    answer = scene.api.post("/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    return bool(answer["status"]["allowed"])


def one_without_the_toleration(scene: Scene) -> str:
    (node,) = scene.nodes()
    scene.occupant("other", node, cpu="800m")
    return scene.critical("nominated", cpu="700m", tolerates=False)


def one_of_a_silent_scheduler(scene: Scene) -> str:
    """It was reported long ago."""
    pod = scene.critical("silent", wait=False, schedulerName="silent")
    scene.api.merge_patch(f"/api/v1/namespaces/{SYSTEM}/pods/{pod}/status", {"status": {"conditions": [SILENT]}})
    return pod


def _less(scene: Scene, account: str, without: str) -> str:
    """The kubeconfig of an account that has all documented roles but for one resource."""
    roles = list(yaml.safe_load_all(ROLES))
    for role in roles:
        role["rules"] = [rule for rule in role["rules"] if rule["resources"] != [without]]
        role["metadata"]["name"] = f"{account}-{role['metadata']['name']}"
    kubeconfig = scene.cluster.service_account(account, namespace=SYSTEM, cluster_role=None)
    scene.cluster.apply([*roles, *(bound(role, account) for role in roles)])
    return str(kubeconfig)


def test_nobody_is_evicted_for_a_pod_that_may_not_be_nominated(scene: Scene, rescues: Rescues) -> None:
    kubeconfig = _less(scene, "less", "pods/status")
    pod = one_without_the_toleration(scene)
    for check_mode in (True, False):
        refused = rescues.module(kubeconfig=kubeconfig, name=pod, check_mode=check_mode)
        assert refused["failed"] and "Grant the verb 'patch' on pods/status in namespace kube-system" in refused["msg"]
    assert scene.evictions() == []


def test_without_the_role_for_nominations_the_taint_alone_keeps_the_node_and_one_warning_says_so(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes(cpu="1")
    scene.occupant("web", node, cpu="450m", replicas=2)
    row = rescues.module(kubeconfig=_less(scene, "no-status", "pods/status"), name=scene.critical("dns", cpu="900m"))
    assert row["pods"][0]["status"] == "rescued" and scene.held() == []
    (warning,) = map(str, row["warnings"])
    assert "pods are not nominated" in warning and "on pods/status in namespace kube-system" in warning


def test_without_the_role_for_events_the_rescue_is_the_same_and_one_warning_for_each_namespace_says_so(
    scene: Scene, rescues: Rescues
) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    row = rescues.module(kubeconfig=_less(scene, "no-events", "events"), name=scene.critical("dns"))
    assert row["pods"][0]["status"] == "rescued" and scene.held() == []
    assert len(row["warnings"]) == 2
    for namespace, warning in zip(("default", SYSTEM), sorted(map(str, row["warnings"])), strict=True):
        assert "no event was written" in warning and f"events in namespace {namespace}" in warning
