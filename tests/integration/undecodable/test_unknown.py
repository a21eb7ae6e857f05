# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects that no decoder can read, through a proxy: each affects only itself, is reported, and what it could have meant is unknown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache.informer import ClusterInformer
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import UndecodableError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import LEASES
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.undecodable import UndecodablePod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.result import rescue_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.run import run_rescue
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueRequest, rescue_options

from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.rescue.rescues import QUICK, victims
from tests.integration.rescue.scene import SYSTEM, Scene
from tests.integration.rescuer.conftest import Start
from tests.integration.undecodable.tampering import Proxy
from tests.integration.workloads import deployment, wait_rolled_out, wait_until

Json = dict[str, Any]


def without_spec(item: Json) -> Json:
    """The object, of which neither spec nor status can be decoded."""
    return {**item, "spec": 5, "status": 5}


def odd_pod(item: Json) -> Json:
    """The pod with containers that cannot be decoded."""
    return {**item, "spec": {**item["spec"], "containers": 5}}


def api_through(proxy: Proxy) -> KubeApi:
    return KubeApi(open_transport.open_transport(kubeconfig=str(proxy.kubeconfig), user_agent="undecodable"))


def rescue(proxy: Proxy, pod: str, **options: Any) -> Json:
    request = RescueRequest(rescue_options({**QUICK, "wait_timeout": 60, **options}), name=pod)
    outcome = run_rescue(api_through(proxy), request)
    return rescue_result(outcome, named=True)


def skipped(result: Json) -> list[tuple[str, str, str]]:
    assert all(entry["reason"] == "undecodable" and entry["message"] for entry in result["skipped_objects"])
    return [(entry["kind"], entry["namespace"], entry["name"]) for entry in result["skipped_objects"]]


def only_pod(scene: Scene, app: str) -> str:
    (pod,) = scene.pods(app)
    name: str = pod["metadata"]["name"]
    return name


def test_node_with_an_undecodable_pod_is_not_cleared_and_another_one_is(scene: Scene, proxy: Proxy) -> None:
    first, second = scene.nodes(2)
    scene.occupant("web", first, cpu="300m")
    scene.occupant("more", first, cpu="600m")
    scene.occupant("db", second, cpu="900m", priority="scene-high")
    odd = only_pod(scene, "web")
    proxy.change("pods", odd, odd_pod)
    result = rescue(proxy, scene.critical("dns"))
    (row,) = result["pods"]
    assert (row["status"], row["node"], victims(row)) == ("rescued", second, {"db"})
    assert skipped(result) == [("Pod", scene.namespace, odd)]


def test_no_pod_is_evicted_where_the_only_node_has_an_undecodable_pod(scene: Scene, proxy: Proxy) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="300m")
    scene.occupant("more", node, cpu="600m")
    proxy.change("pods", only_pod(scene, "web"), odd_pod)
    (row,) = rescue(proxy, scene.critical("dns"))["pods"]
    assert row["status"] == "impossible" and "cannot be decoded" in row["message"]
    assert scene.evictions() == [] and scene.held() == []


def test_undecodable_pod_without_a_node_hinders_no_rescue(scene: Scene, proxy: Proxy) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="900m")
    pending = scene.critical("pending", cpu="5")
    proxy.change("pods", pending, odd_pod)
    result = rescue(proxy, scene.critical("dns"))
    assert result["pods"][0]["status"] == "rescued" and skipped(result) == [("Pod", SYSTEM, pending)]


@pytest.mark.parametrize("selector", [{"matchLabels": {"app": "web"}}, 5], ids=["readable selector", "unreadable selector"])
def test_undecodable_budget_protects_the_pods_that_it_may_select(scene: Scene, proxy: Proxy, selector: Any) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="900m")
    scene.budget(scene.id, "other", allowed=0, replicas=0)
    proxy.change("poddisruptionbudgets", scene.id, lambda item: {**item, "spec": {"selector": selector}, "status": {"desiredHealthy": "x"}})
    result = rescue(proxy, scene.critical("dns"))
    assert result["pods"][0]["status"] == "impossible" and "PodDisruptionBudget" in result["pods"][0]["message"]
    assert skipped(result) == [("PodDisruptionBudget", scene.namespace, scene.id)] and scene.evictions() == []


def test_undecodable_budget_that_selects_other_pods_protects_none(scene: Scene, proxy: Proxy) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="900m")
    scene.budget(scene.id, "other", allowed=0, replicas=0)
    proxy.change("poddisruptionbudgets", scene.id, lambda item: {**item, "status": {"desiredHealthy": "x"}})
    assert rescue(proxy, scene.critical("dns"))["pods"][0]["status"] == "rescued"


def test_undecodable_node_is_no_candidate(scene: Scene, proxy: Proxy) -> None:
    first, second = scene.nodes(2)
    scene.occupant("web", first, cpu="900m")
    scene.occupant("db", second, cpu="900m", priority="scene-high")
    proxy.change("nodes", first, without_spec)
    result = rescue(proxy, scene.critical("dns"))
    assert (result["pods"][0]["status"], result["pods"][0]["node"]) == ("rescued", second)
    assert skipped(result) == [("Node", "", first)]


def test_objects_of_every_followed_kind_may_be_undecodable_together(cluster: Cluster, scene: Scene, proxy: Proxy) -> None:
    """With null in place of their metadata they have no name any more, and are reported nevertheless."""
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="900m")
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Gi"}}}
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, "storageClassName": "none"}
    name = scene.id
    cluster.apply(
        [
            {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": name}, "spec": claim},
            {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": volume},
            {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name}, "provisioner": "none"},
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": f"{name}-odd"}},
        ]
    )
    try:
        proxy.change("persistentvolumeclaims", name, lambda _item: {"metadata": None, "spec": 5})
        proxy.change("persistentvolumes", name, lambda _item: {"spec": 5, "metadata": 5})
        proxy.change("storageclasses", name, lambda item: {**item, "provisioner": 5})
        proxy.change("namespaces", f"{name}-odd", without_spec)
        result = rescue(proxy, scene.critical("dns"))
        assert result["pods"][0]["status"] == "rescued"
        kinds = {kind for kind, _namespace, _name in skipped(result)}
        assert kinds == {"PersistentVolumeClaim", "PersistentVolume", "StorageClass", "Namespace"}
    finally:
        cluster.kubectl("delete", "persistentvolume", name, "--wait=false")
        cluster.kubectl("delete", "storageclass", name)
        cluster.kubectl("delete", "namespace", f"{name}-odd", "--wait=false")


def test_watch_event_that_cannot_be_decoded_replaces_the_good_version_and_a_later_good_one_replaces_it(
    cluster: Cluster, scene: Scene, proxy: Proxy
) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="300m")
    name = only_pod(scene, "web")
    cache = ClusterInformer(api_through(proxy))
    cache.start()

    def shown() -> list[Any]:
        return [pod for pod in cache.snapshot().pods_by_node.get(node, ()) if pod.metadata.name == name]

    try:
        assert [type(pod) is UndecodablePod for pod in shown()] == [False]
        proxy.change("pods", name, odd_pod)
        cluster.kubectl("annotate", "pod", name, "-n", scene.namespace, "odd=1")
        wait_until(lambda: [type(pod) is UndecodablePod for pod in shown()] == [True], what="the undecodable version")
        assert [one.metadata.name for one in cache.undecodable] == [name] and cache.has_synced
        proxy.changes.clear()
        cluster.kubectl("annotate", "pod", name, "-n", scene.namespace, "odd=2", "--overwrite")
        wait_until(lambda: [type(pod) is UndecodablePod for pod in shown()] == [False], what="the good version")
        assert cache.undecodable == ()
        proxy.change("pods", name, odd_pod)
        cluster.kubectl("delete", "replicaset", "web", "-n", scene.namespace, "--wait=false")
        wait_until(lambda: shown() == [] and cache.undecodable == (), what="the end of the pod")
        assert cache.has_synced and cache.errors == {}
    finally:
        cache.stop()


def test_watch_event_of_an_object_that_cannot_be_recognized_has_the_list_read_again(cluster: Cluster, scene: Scene, proxy: Proxy) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="300m")
    name = only_pod(scene, "web")
    cache = ClusterInformer(api_through(proxy))
    cache.start()

    def shown() -> list[str]:
        return [pod.metadata.name for pod in cache.snapshot().pods_by_node.get(node, ())]

    try:
        assert shown() == [name]
        proxy.change(
            "pods", name, lambda item: {"metadata": {"labels": 5}, "spec": {"nodeName": item["spec"]["nodeName"], "containers": 5}}
        )
        cluster.kubectl("annotate", "pod", name, "-n", scene.namespace, "odd=1")
        wait_until(lambda: shown() == [""], what="the version without a name in place of the good one")
        assert len(cache.undecodable) == 1
        proxy.changes.clear()
        cluster.kubectl("annotate", "pod", name, "-n", scene.namespace, "odd=2", "--overwrite")
        wait_until(lambda: shown() == [name] and cache.undecodable == (), what="the good version")
        wait_until(lambda: cache.has_synced, what="a quiet cache")
    finally:
        cache.stop()


def test_daemon_reports_an_undecodable_object_once_for_each_version_and_counts_it(
    cluster: Cluster, scene: Scene, proxy: Proxy, daemons: Start
) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="900m")
    scene.budget(scene.id, "other", allowed=0, replicas=0)
    proxy.change("poddisruptionbudgets", scene.id, lambda item: {**item, "status": {"desiredHealthy": "x"}})
    daemon = daemons(kubeconfig=proxy.kubeconfig)
    wait_until(lambda: daemon.leads, what="a leader")
    pod = scene.critical("dns")
    wait_until(lambda: scene.bound_to(pod) == node, what=lambda: f"{pod} on {node}; {daemon.log.read_text()}")
    assert daemon.metric("undecodable_objects", kind="PodDisruptionBudget") == 1
    said = {"object": f"PodDisruptionBudget {scene.namespace}/{scene.id}"}
    assert len(daemon.said("object cannot be decoded", **said)) == 1
    cluster.kubectl("annotate", "pdb", scene.id, "-n", scene.namespace, "odd=1")
    wait_until(
        lambda: len(daemon.said("object cannot be decoded", **said)) == 2, what=lambda: f"the second version; {daemon.log.read_text()}"
    )
    cluster.kubectl("delete", "pdb", scene.id, "-n", scene.namespace)
    wait_until(lambda: daemon.metric("undecodable_objects") == 0, what="no undecodable object")


def test_lease_that_cannot_be_decoded_is_a_clear_error(scene: Scene, proxy: Proxy) -> None:
    api = api_through(proxy)
    proxy.change("leases", "kube-scheduler", lambda item: {**item, "spec": {"renewTime": 5}})
    with pytest.raises(UndecodableError, match="Lease kube-system/kube-scheduler cannot be decoded"):
        api.get(LEASES, SYSTEM, "kube-scheduler")


def test_check_and_restart_report_what_they_could_not_decode(cluster: Cluster, scene: Scene, proxy: Proxy) -> None:
    web = deployment(scene.namespace, "web", 2)
    broken = deployment(scene.namespace, "broken", 1)
    scene.nodes(2, cpu="4")
    cluster.apply([web, broken])
    wait_rolled_out(cluster, web)
    proxy.change("deployments", "broken", without_spec)
    modules = Modules(Path(proxy.kubeconfig))
    check = modules.run("k8s_spread_check", namespaces=[scene.namespace], namespace_annotation="", include_healthy=True)
    assert [entry["name"] for entry in check["workloads"]] == ["web"], check
    assert skipped(check) == [("Deployment", scene.namespace, "broken")]
    refused = modules.restart(kind="Deployment", namespace=scene.namespace, name="broken")
    assert refused["failed"] and refused["workloads"][0]["action"] == "refused", refused
    assert "cannot be decoded" in refused["workloads"][0]["message"]
    assert ("Deployment", scene.namespace, "broken") in skipped(refused)


def test_restart_is_done_once_although_its_answer_cannot_be_decoded(cluster: Cluster, scene: Scene, proxy: Proxy) -> None:
    web = deployment(scene.namespace, "web", 2)
    scene.nodes(2, cpu="4")
    cluster.apply(web)
    wait_rolled_out(cluster, web)

    def odd_once_restarted(item: Json) -> Json | None:
        restarted = "restartedAt" in str(item["spec"]["template"]["metadata"])
        return without_spec(item) if restarted else None

    proxy.change("deployments", "web", odd_once_restarted)
    result = Modules(Path(proxy.kubeconfig)).restart(
        kind="Deployment", namespace=scene.namespace, name="web", only_if_helps=False, wait_timeout=20
    )
    assert "cannot be decoded" in result["workloads"][0]["message"], result
    wait_rolled_out(cluster, web)
    events = cluster.audit().events(since=scene.mark, verb="patch", resource="deployments")
    assert len([event for event in events if event.namespace == scene.namespace and event.code == 200]) == 1
