# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods with which profiles are tried. A scheduler and a leader are parts of the API server of these tests."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ConflictError, KubeError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import PODS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.cluster import ObjectsApi, ObjectsError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.objects import Json, Reference
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.scheduler_role import probe as tested
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.scheduler_role.probe import bind, probe_of, wait_for_leader

POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"namespace": "default", "labels": {"a": "b"}},
    "spec": {"restartPolicy": "Never"},
}
BOUND = {"reason": "Scheduled", "reportingComponent": "web", "message": "assigned"}
FAILED = {"reason": "FailedScheduling", "message": "0/3 nodes are available."}


class Api:
    """An API server whose scheduler gives each pod the node, and writes the events."""

    def __init__(self, node: str = "", events: t.Sequence[Json] = (), holder: str = "") -> None:
        self.node, self.events, self.holder, self.unreadable = node, list(events), holder, False
        self.pods: dict[str, Json] = {}
        self.created: list[Json] = []

    def create_once(self, _resource: t.Any, _namespace: str, pod: Json) -> None:
        self.created.append(pod)
        self.pods[pod["metadata"]["name"]] = {**pod, "metadata": {**pod["metadata"], "uid": "1"}}

    def find(self, reference: Reference) -> Json | None:
        if reference.kind == "Lease":
            return {"spec": {"holderIdentity": self.holder}} if self.holder != "missing" else None
        pod = self.pods.get(reference.name)
        return {**pod, "spec": {**pod["spec"], "nodeName": self.node}} if pod else None

    def list_plain(self, _version: str, _kind: str, *, namespace: str, fields: str) -> list[Json]:
        if self.unreadable:
            raise KubeError("cannot list events")
        pod, scheduled = f"involvedObject.name={next(iter(self.pods))}", ",reason=Scheduled"
        assert namespace == "default" and fields in (pod, pod + scheduled)
        return [event for event in self.events if fields == pod or event["reason"] == "Scheduled"]

    def delete(self, reference: Reference, uid: str) -> None:
        assert uid == "1"
        del self.pods[reference.name]


@pytest.fixture(autouse=True)
def _no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tested, "EVENT_WITHIN_S", 0)
    monkeypatch.setattr(tested, "LEADER_WITHIN_S", 0)


def probed(api: Api) -> str:
    return bind(t.cast("t.Any", api), probe_of(POD, "web"), timeout_s=0, log="kubectl logs")


@pytest.mark.parametrize("event", [BOUND, {**BOUND, "reportingComponent": "", "source": {"component": "web"}}])
def test_a_pod_that_its_scheduler_has_bound_is_deleted_and_named(event: Json) -> None:
    api = Api("worker-1", [FAILED, event])
    assert probed(api) == "web has bound a pod to worker-1: assigned"
    (pod,) = api.created
    assert api.pods == {} and pod["spec"] == {"restartPolicy": "Never", "schedulerName": "web"}
    assert pod["metadata"]["name"].startswith("kube-scheduling-probe-") and pod["metadata"]["labels"] == {"a": "b"}


@pytest.mark.parametrize(
    ("api", "text"),
    [
        (Api(), "The scheduler has not bound a pod of the profile web after 0 s (it has no Event). See kubectl logs"),
        (Api("", [FAILED]), "The scheduler has not bound a pod of the profile web after 0 s (0/3 nodes are available.). See kubectl logs"),
        (Api("worker-1", [FAILED]), "A pod of the profile web was bound to worker-1, and it has no Event Scheduled. See kubectl logs"),
        (
            Api("worker-1", [{**BOUND, "reportingComponent": "other"}]),
            "The Event of a pod of the profile web names other as its scheduler. Remove the other scheduler, or choose another name for "
            "the profile",
        ),
    ],
)
def test_a_pod_that_its_scheduler_has_not_bound_is_deleted_and_the_reason_is_named(api: Api, text: str) -> None:
    with pytest.raises(ObjectsError) as error:
        probed(api)
    assert str(error.value) == text and api.pods == {}


def test_a_pod_is_deleted_if_its_events_cannot_be_read() -> None:
    api = Api("worker-1")
    api.unreadable = True
    with pytest.raises(KubeError, match="cannot list events"):
        probed(api)
    assert api.pods == {} and len(api.created) == 1


def test_another_pod_is_tried_if_the_scheduler_ended_before_it_wrote_the_event() -> None:
    class WritesTheSecondEvent(Api):
        def create_once(self, resource: t.Any, namespace: str, pod: Json) -> None:
            self.events += [BOUND] if self.created else []
            super().create_once(resource, namespace, pod)

    api = WritesTheSecondEvent("worker-1", [FAILED])
    assert probed(api) == "web has bound a pod to worker-1: assigned"
    assert len({pod["metadata"]["name"] for pod in api.created}) == 2 and api.pods == {}


@pytest.mark.parametrize("holder", ["", "missing"])
def test_a_lease_that_nobody_holds_is_named(holder: str) -> None:
    with pytest.raises(ObjectsError, match=r"After 0 s nobody holds the Lease kube-system/kube-scheduler\."):
        wait_for_leader(t.cast("t.Any", Api(holder=holder)), "kube-system", "kube-scheduler")
    wait_for_leader(t.cast("t.Any", Api(holder="cp-1_x")), "kube-system", "kube-scheduler")


@pytest.mark.parametrize("repeated", [True, False])
def test_an_object_whose_first_answer_was_lost_is_created(repeated: bool) -> None:
    class LostAnswer(ObjectsApi):
        def __init__(self) -> None: ...

        def create(self, *_given: t.Any, **_options: t.Any) -> None:
            error = ConflictError("it exists", status=409)
            error.repeated = repeated
            raise error

    if repeated:
        LostAnswer().create_once(PODS, "app", {})
    else:
        with pytest.raises(ConflictError):
            LostAnswer().create_once(PODS, "app", {})
