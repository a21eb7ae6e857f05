# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that a test file leaves in a shared cluster are an error of that file, and not of the next one."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lab import pytest_fixtures
from lab.cluster import Cluster
from lab.pytest_fixtures import NamespaceFactory, SharedCluster
from tests.integration.lab.conftest import Pods

NODE = "/api/v1/nodes/worker-1"
BROKEN = {"metadata": {"labels": {"left": "yes"}}, "spec": {"taints": [{"key": "left", "effect": "NoSchedule"}], "unschedulable": True}}
RESTORED = {"metadata": {"labels": {"left": None}}, "spec": {"taints": None, "unschedulable": None}}
OBJECTS = {
    "/api/v1/namespaces/left": {"metadata": {"name": "left"}},
    "/api/v1/namespaces/default/configmaps/left": {"metadata": {"name": "left"}},
    "/apis/scheduling.k8s.io/v1/priorityclasses/left": {"metadata": {"name": "left"}, "value": 1},
    "/apis/storage.k8s.io/v1/storageclasses/left": {"metadata": {"name": "left"}, "provisioner": "none"},
    "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/left": {"metadata": {"name": "left"}},
}


@pytest.fixture
def shared(lab_cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> SharedCluster:
    """The shared cluster, as if a session began now."""
    monkeypatch.setattr(pytest_fixtures, "GONE_WITHIN_S", 2)
    return SharedCluster(lab_cluster)


def end_of_file(shared: SharedCluster, name: str, change: Callable[[], None] = lambda: None) -> None:
    """Use the cluster as a test file of this name does that makes the change."""
    for _cluster in shared.for_file(name):
        change()


def test_each_object_that_a_file_leaves_is_named_once(lab_cluster: Cluster, shared: SharedCluster) -> None:
    api = lab_cluster.api

    def leave() -> None:
        for path, body in OBJECTS.items():
            api.post(path.rpartition("/")[0], body)
        api.merge_patch(NODE, BROKEN)
        Pods(api, "default").running("left")

    with pytest.raises(AssertionError) as error:
        end_of_file(shared, "tests/first.py", leave)
    first, *lines = str(error.value).splitlines()
    assert first == "tests/first.py has not restored cluster shared, which other files use:"
    named = [line.removeprefix("  new: ") for line in lines[:-1]]
    assert named == sorted([*OBJECTS, "/api/v1/namespaces/default/pods/left"])
    assert lines[-1].startswith(f"  changed: {NODE}: ") and '"left": "yes"' in lines[-1] and '"unschedulable": true' in lines[-1]
    end_of_file(shared, "tests/second.py")

    for path in (*OBJECTS, "/api/v1/namespaces/default/pods/left"):
        api.request("DELETE", path, {"gracePeriodSeconds": 0})
    api.merge_patch(NODE, RESTORED)
    with pytest.raises(AssertionError, match="missing: /api/v1/namespaces/default/configmaps/left"):
        end_of_file(shared, "tests/third.py")


def test_users_and_stored_state_are_deleted_after_each_file(lab_cluster: Cluster, shared: SharedCluster) -> None:
    api = lab_cluster.api
    state = "/api/v1/namespaces/kube-system/configmaps/kube-scheduling-left"
    role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/left"

    def leave() -> None:
        api.post(role.rpartition("/")[0], {"metadata": {"name": "left"}})
        api.post(state.rpartition("/")[0], {"metadata": {"name": "kube-scheduling-left"}})
        lab_cluster.service_account("left")

    end_of_file(shared, "tests/first.py", leave)
    account = "/api/v1/namespaces/default/serviceaccounts/left"
    binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/lab:default:left:cluster-admin"
    assert [path for path in (state, role, account, binding) if api.find(path) is not None] == []


def test_what_a_failed_test_leaves_is_no_further_error(lab_cluster: Cluster, shared: SharedCluster) -> None:
    path = "/api/v1/namespaces/default/configmaps/left"
    failures = iter([2, 3])
    for _cluster in shared.for_file("tests/first.py", lambda: next(failures)):
        lab_cluster.api.post(path.rpartition("/")[0], OBJECTS[path])
    lab_cluster.api.request("DELETE", path)


def test_a_pod_in_a_namespace_of_the_file_is_named(lab_cluster: Cluster, shared: SharedCluster, namespaces: NamespaceFactory) -> None:
    created: list[str] = []

    def leave() -> None:
        created.append(namespaces("test"))
        Pods(lab_cluster.api, created[0]).running("left")

    with pytest.raises(AssertionError, match=r"new: /api/v1/namespaces/test-\w+/pods/left"):
        end_of_file(shared, "tests/first.py", leave)
    Pods(lab_cluster.api, created[0]).delete("left")
