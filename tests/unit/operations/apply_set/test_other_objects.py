# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Objects that are no members of an apply set: the pods of its CronJob, the other form of its program, and the state of the programs."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import KubeError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.apply_set import ApplySet
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.objects import Json, Reference, reference_of

LABELS = {"app.kubernetes.io/name": "kube-scheduling-rescuer", "app.kubernetes.io/managed-by": "onprem.kube_scheduling"}
LABELS["app.kubernetes.io/part-of"] = "kube-scheduling"
OUTCOME = "kube-scheduling.onprem/last-outcome"


def made(kind: str, name: str, namespace: str = "shop", version: str = "v1", **more: t.Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace, "uid": "1", **more}}


class Api:
    """An API server with these objects."""

    def __init__(self, *items: Json, forbidden: str = "") -> None:
        self.items, self.forbidden = {reference_of(item): item for item in items}, forbidden

    def resource(self, *_kind: str) -> bool:
        return True

    def find(self, reference: Reference) -> Json | None:
        return self.items.get(reference)

    def list_plain(self, _version: str, kind: str, **_selectors: str) -> list[Json]:
        if kind == self.forbidden:
            raise KubeError("cannot list pods")
        return [item for item in self.items.values() if item["kind"] == kind]

    def apply(self, reference: Reference, item: Json, *, dry_run: bool) -> Json:
        assert dry_run
        return self.items.get(reference, item)

    def delete(self, reference: Reference, _uid: str) -> None:
        del self.items[reference]

    def remove_annotation(self, reference: Reference, name: str) -> None:
        del self.items[reference]["metadata"]["annotations"][name]


def after(state: str, api: Api, *parts: Json, check_mode: bool = False) -> tuple[list[str], Json]:
    """The problems and the result."""
    given = {
        "name": "kube-scheduling-rescuer",
        "component": "rescuer",
        "namespace": "shop",
        "objects": {"part": parts},
        "kinds": [],
        "optional_kinds": [],
        "create_namespace": False,
        "removes_state": True,
        "permissions": None,
        "delete_timeout": 1,
    }
    result: Json = {"changed": False}
    members = ApplySet(t.cast("t.Any", api), given, result, check_mode=check_mode)
    getattr(members, state)()
    return members.problems, result


def test_a_pod_of_a_cron_job_that_does_not_start_is_a_problem() -> None:
    job = made("CronJob", "x", version="batch/v1", labels=LABELS)
    states = {"starts": "ContainerCreating", "waits": "ErrImageNeverPull"}
    pods = [
        {**made("Pod", name), "status": {"containerStatuses": [{"state": {"waiting": {"reason": reason}}}, {"state": {"running": {}}}]}}
        for name, reason in states.items()
    ]
    problems, _result = after("verified", Api(job, *pods, made("Namespace", "shop", "")), job)
    assert problems == ["Pod shop/waits of the CronJob does not start (ErrImageNeverPull): see kubectl --namespace shop describe pod waits"]
    problems, unread = after("verified", Api(job, made("Namespace", "shop", ""), forbidden="Pod"), job)
    assert problems == [] and "they cannot be listed: cannot list pods" in unread["remarks"][0]


def test_the_other_form_of_the_program_is_a_problem() -> None:
    other = made("ClusterRole", "kube-scheduling-rescuer-static", "", "rbac.authorization.k8s.io/v1")
    (problem,), _result = after("verified", Api(made("Namespace", "shop", ""), other))
    assert problem.startswith("The program is also installed as a static pod: "), problem


def test_a_secret_is_found_by_its_name_without_the_right_to_list_secrets() -> None:
    secret = made("Secret", "token", labels=LABELS)
    api = Api(made("Namespace", "shop", ""), secret, forbidden="Secret")
    assert after("verified", api, secret)[0] == []
    after("absent", api, secret)
    assert [reference.kind for reference in api.items] == ["Namespace"]


@pytest.mark.parametrize("check_mode", [True, False])
def test_the_state_of_the_programs_is_removed_once(check_mode: bool) -> None:
    api = Api(
        made("Lease", "kube-scheduling-rescue", "kube-system", "coordination.k8s.io/v1"),
        made("Lease", "of-others", "kube-system", "coordination.k8s.io/v1"),
        made("Deployment", "web", version="apps/v1", annotations={OUTCOME: "{}", "other": "x"}),
        made("ReplicaSet", "web-1", version="apps/v1"),
    )
    _problems, result = after("absent", api, check_mode=check_mode)
    assert result["outcomes"] == 1 and result["changed"], result
    assert ("Would be removed: the outcome on Deployment shop/web" in result["remarks"]) == check_mode
    left = {reference.name: item["metadata"].get("annotations") for reference, item in api.items.items()}
    kept = {OUTCOME: "{}", "other": "x"} if check_mode else {"other": "x"}
    assert left == {"of-others": None, "web": kept, "web-1": None} | ({"kube-scheduling-rescue": None} if check_mode else {})
    if not check_mode:
        assert not after("absent", api)[1]["changed"]


def test_members_are_deleted_in_the_reverse_order_in_which_they_are_applied() -> None:
    kinds = {"Role": "rbac/v1", "ConfigMap": "v1", "Deployment": "apps/v1"}
    items = [made(kind, "x", version=version, labels=LABELS) for kind, version in kinds.items()]
    _problems, result = after("absent", Api(*items, made("Namespace", "shop", "")), *items)
    assert [row["kind"] for row in result["objects"]] == ["Deployment", "ConfigMap", "Role"]
