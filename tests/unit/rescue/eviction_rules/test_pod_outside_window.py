# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""With respect_windows, a pod outside of the maintenance window of its workload or namespace is not evicted."""

from __future__ import annotations

import sys
import typing as t
import zoneinfo
from collections.abc import Iterator

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.namespace import Namespace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import force_setattr
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import ClusterSnapshot
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.eviction_rules.pod_outside_window import (
    MaintenanceWindows,
    pod_outside_window_violation,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import IMPOSSIBLE, PLANNED, RescueContext, RescuePlan
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.planner import RescuePlanner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.maintenance_window import WINDOW_ANNOTATION, _zone

from tests.unit.support.cluster import Json, snapshot_of, struct
from tests.unit.support.objects import pending, running, small_node

NOW = 1_767_225_600.0
"""Thursday 2026-01-01 00:00 UTC."""
OPEN, CLOSED, WRONG = "Thu 00:00-01:00 UTC", "Wed 00:00-24:00 UTC", "Thu 0-24 UTC"


def namespace(window: str | None, name: str = "app") -> Namespace:
    found: Namespace = struct(Namespace, {"metadata": {"name": name, "annotations": annotations(window)}})
    return found


def annotations(window: str | None) -> Json:
    return {} if window is None else {WINDOW_ANNOTATION: window}


def workload(
    kind: str, uid: str, window: str | None = None, *, owner: tuple[str, str] | None = None, place: str = "app", version: str = "apps/v1"
) -> Workload:
    """``owner``: kind and uid of its controller, which has the API ``version``."""
    references = [{"apiVersion": version, "kind": owner[0], "name": "x", "uid": owner[1], "controller": True}] if owner else []
    metadata = {"name": uid, "namespace": place, "uid": uid, "annotations": annotations(window), "ownerReferences": references}
    found: Workload = struct(Workload, {"metadata": metadata})
    force_setattr(found, "kind", kind)
    return found


def code(snapshot: ClusterSnapshot, *, now_s: float = NOW, **pod: t.Any) -> str:
    reason = pod_outside_window_violation(running("node-1", **pod), MaintenanceWindows(snapshot, now_s))
    return reason.code if reason is not None else ""


def deployed(own: str | None, of_namespace: str | None, *, copied: str | None = None) -> ClusterSnapshot:
    """A Deployment whose ReplicaSet has the uid that ``running`` gives to its owner."""
    return snapshot_of(
        namespaces=[namespace(of_namespace)],
        deployments=[workload("Deployment", "d-web", own)],
        replica_sets=[workload("ReplicaSet", "uid-web", copied, owner=("Deployment", "d-web"))],
    )


@pytest.mark.parametrize(
    ("own", "of_namespace", "expected"),
    [
        (None, None, ""),
        (OPEN, None, ""),
        (CLOSED, None, "outside_window"),
        (WRONG, None, "invalid_window"),
        (None, OPEN, ""),
        (None, CLOSED, "outside_window"),
        (None, WRONG, "invalid_window"),
        pytest.param(OPEN, CLOSED, "", id="the open window of the workload has precedence"),
        pytest.param(CLOSED, OPEN, "outside_window", id="the closed window of the workload has precedence"),
        pytest.param(WRONG, OPEN, "invalid_window", id="the invalid window of the workload has precedence"),
    ],
)
def test_window_of_workload_or_namespace_protects_the_pod(own: str | None, of_namespace: str | None, expected: str) -> None:
    assert code(deployed(own, of_namespace)) == expected
    stateful = snapshot_of(namespaces=[namespace(of_namespace)], stateful_sets=[workload("StatefulSet", "uid-web", own)])
    assert code(stateful, kind="StatefulSet") == expected
    alone = snapshot_of(namespaces=[namespace(of_namespace)], replica_sets=[workload("ReplicaSet", "uid-web", own)])
    assert code(alone) == expected
    assert pod_outside_window_violation(running("node-1"), None) is None, "windows do not count without respect_windows"


def test_annotation_of_the_deployment_counts_and_not_its_copy_on_the_replica_set() -> None:
    """The controller copies annotations to the ReplicaSet of the current revision. Pods of older ones have an older copy."""
    assert code(deployed(OPEN, None, copied=CLOSED)) == ""
    assert code(deployed(CLOSED, None, copied=OPEN)) == "outside_window"


def test_window_counts_at_the_given_time() -> None:
    assert code(deployed(OPEN, None), now_s=NOW + 3600) == "outside_window"


@pytest.mark.parametrize(
    ("missing", "snapshot"),
    [
        ("ReplicaSet", snapshot_of(namespaces=[namespace(OPEN)], deployments=[workload("Deployment", "d-web", OPEN)])),
        (
            "Deployment",
            snapshot_of(
                namespaces=[namespace(OPEN)], replica_sets=[workload("ReplicaSet", "uid-web", OPEN, owner=("Deployment", "d-web"))]
            ),
        ),
        (
            "namespace",
            snapshot_of(
                deployments=[workload("Deployment", "d-web")],
                replica_sets=[workload("ReplicaSet", "uid-web", owner=("Deployment", "d-web"))],
            ),
        ),
        (
            "ReplicaSet in the same namespace",
            snapshot_of(namespaces=[namespace(OPEN)], replica_sets=[workload("ReplicaSet", "uid-web", OPEN, place="other")]),
        ),
    ],
)
def test_pod_is_protected_if_its_window_is_not_known(missing: str, snapshot: ClusterSnapshot) -> None:
    assert code(snapshot) == "unknown_window", missing


@pytest.mark.parametrize("kind", ["StatefulSet", "ReplicaSet"])
@pytest.mark.parametrize(("window", "expected"), [(OPEN, ""), (CLOSED, "outside_window"), (None, "")])
def test_window_of_the_namespace_counts_for_a_controller_of_another_api_group(kind: str, window: str | None, expected: str) -> None:
    """Its kind may have the name of a kind of Kubernetes. Its objects are not read."""
    snapshot = snapshot_of(namespaces=[namespace(window)])
    assert code(snapshot, kind=kind, api_version="apps.kruise.io/v1beta1") == expected
    assert code(snapshot, kind=kind) == "unknown_window", "a controller of Kubernetes is read, and this one is missing"


def test_window_of_the_replica_set_counts_if_a_deployment_of_another_api_group_controls_it() -> None:
    def of(version: str) -> ClusterSnapshot:
        owned = workload("ReplicaSet", "uid-web", CLOSED, owner=("Deployment", "d-web"), version=version)
        return snapshot_of(namespaces=[namespace(OPEN)], replica_sets=[owned])

    assert code(of("example.org/v1")) == "outside_window"
    assert code(of("apps/v1")) == code(of("extensions/v1beta1")) == "unknown_window"


@pytest.fixture
def no_time_zone_data(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine without a time zone database."""
    # A part of the package that another test has imported is found without the package.
    for name in ("tzdata", *(name for name in sys.modules if name.startswith("tzdata."))):
        monkeypatch.setitem(sys.modules, name, None)
    zoneinfo.reset_tzpath(to=())
    zoneinfo.ZoneInfo.clear_cache()
    _zone.cache_clear()
    yield
    zoneinfo.reset_tzpath()
    _zone.cache_clear()


@pytest.mark.usefixtures("no_time_zone_data")
def test_pod_is_protected_with_a_code_of_its_own_if_the_machine_has_no_time_zone_data() -> None:
    window = "Mon 08:00-10:00 Asia/Kathmandu"
    assert code(deployed(window, None)) == code(deployed(None, window)) == "no_time_zones"
    reason = pod_outside_window_violation(running("node-1"), MaintenanceWindows(deployed(window, None), NOW))
    assert reason is not None and "install the package tzdata" in reason.text and "respect_windows" in reason.text


@pytest.mark.parametrize("pod", [{"owner": ""}, {"kind": "Job"}, {"kind": "Virtual"}], ids=str)
def test_only_the_namespace_counts_for_pods_without_a_workload(pod: t.Any) -> None:
    assert code(snapshot_of(namespaces=[namespace(CLOSED)]), **pod) == "outside_window"
    assert code(snapshot_of(namespaces=[namespace(OPEN)]), **pod) == ""


def plan(window: str | None, **options: t.Any) -> RescuePlan:
    """The plan for a critical pod on a full node, whose only pod is in a namespace with this window."""
    pod = pending("500m", tolerations=[{"key": "CriticalAddonsOnly", "operator": "Exists"}])
    snapshot = snapshot_of(
        nodes=[small_node("node-1")],
        pods=[running("node-1", "600m"), pod],
        namespaces=[namespace(window)],
        replica_sets=[workload("ReplicaSet", "uid-web")],
    )
    return RescuePlanner(snapshot, RescueOptions(**options), now_s=NOW).plan_rescue(pod, RescueContext())


def test_plan_evicts_no_pod_outside_of_its_window_only_with_respect_windows() -> None:
    assert plan(CLOSED).status == PLANNED, "a tenant cannot prevent a rescue"
    assert plan(OPEN, respect_windows=True).status == PLANNED
    refused = plan(CLOSED, respect_windows=True)
    assert refused.status == IMPOSSIBLE
    (blocker,) = (one for one in refused.blockers if one.reason.code == "outside_window")
    assert blocker.nodes == 1
    for part in ("annotation kube-scheduling.onprem/window of its namespace", "respect_windows"):
        assert part in blocker.reason.text
