# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pod that a restart or an eviction brings, by what admission made of the live ones."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.namespace import Namespace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod, PodSpec
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json, replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.interning import Interner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import Skipped
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.next_pod.next_pod import NextPod, next_pod

from tests.unit.support.cluster import ClusterBuilder, Json, workers

HASH = "pod-template-hash"
NODE_LIFE = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute"} for key in ("not-ready", "unreachable")]


def change(cluster: ClusterBuilder, number: int, *, metadata: Json | None = None, spec: Json | None = None, **status: t.Any) -> None:
    """Give a pod other parts of its metadata, spec and status."""
    pod = decode_json(dict, encode_json(cluster.pods[number]))
    for name, part in (("metadata", metadata), ("spec", spec), ("status", status)):
        pod[name] = {**pod.get(name, {}), **(part or {})}
    cluster.pods[number] = Interner().intern_pod(decode_json(Pod, encode_json(pod)))


def web(pods: int = 2, *, template: Json | None = None, **changed: Json) -> tuple[ClusterBuilder, Workload]:
    """A Deployment; all its pods have the ``spec`` or ``metadata`` given for them."""
    cluster = workers(2)
    workload = cluster.deployment("web", ["worker-1"] * pods, template=template)
    for number in range(pods if changed else 0):
        change(cluster, number, **changed)
    return cluster, workload


def asked(pod: Pod) -> dict[str, dict[str, str]]:
    """The requests by container."""
    return {one.name: dict((one.resources.requests if one.resources else None) or {}) for one in pod.spec.all_containers}


def container(name: str = "main", cpu: str = "100m", **more: t.Any) -> Json:
    return {"name": name, "resources": {"requests": {"cpu": cpu}}, **more}


def fields(found: NextPod) -> str:
    """The text of its only reason; empty where there is none."""
    assert len(found.unknown) < 2, found.unknown
    return found.unknown[0].text if found.unknown else ""


# --- what is taken over -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"disk": "ssd"}},
        {"tolerations": [*NODE_LIFE, {"key": "gpu", "operator": "Exists"}]},
        {"priority": 7, "priorityClassName": "seven"},
        {"schedulerName": "of-somebody-else"},
        {"hostNetwork": True},
        {"runtimeClassName": "gvisor", "overhead": {"cpu": "250m"}},
        {"runtimeClassName": "runc"},
        {"resourceClaims": [{"name": "gpu"}]},
        {"containers": [container(), container("proxy", "500m")]},
        {"containers": [container(cpu="300m")]},
        {"initContainers": [container("proxy", "500m", restartPolicy="Always")]},
        {"resources": {"requests": {"cpu": "2"}}},
        {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}},
        {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]},
    ],
    ids=lambda spec: ",".join(spec),
)
def test_what_all_live_pods_have_comes_with_a_new_one(spec: Json) -> None:
    cluster, workload = web(spec=spec)
    found = next_pod(workload, cluster.snapshot())
    assert found.unknown == ()
    wanted = decode_json(PodSpec, encode_json(spec))
    for name in PodSpec.__struct_fields__:
        if getattr(wanted, name) != getattr(PodSpec(), name):
            assert getattr(found.pod.spec, name) == getattr(wanted, name), name
    assert found.pod.spec.node_name == "" and found.pod.metadata.uid == ""


def test_labels_that_all_live_pods_have_come_with_a_new_one_but_not_those_of_their_node_and_revision() -> None:
    labels = {"app": "web", HASH: "hash1", "mesh": "on", "topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"}
    cluster, workload = web(metadata={"labels": labels})
    assert next_pod(workload, cluster.snapshot()).pod.metadata.labels == {"app": "web", "mesh": "on", HASH: "next-web"}
    assert next_pod(workload, cluster.snapshot(), revision="hash1").pod.metadata.labels == {"app": "web", "mesh": "on", HASH: "hash1"}


def test_pending_pods_count_and_those_that_end_or_have_ended_do_not() -> None:
    cluster, workload = web(3)
    change(cluster, 0, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    change(cluster, 1, phase="Failed")
    change(cluster, 2, spec={"nodeName": "", "nodeSelector": {"disk": "ssd"}}, phase="Pending")
    found = next_pod(workload, cluster.snapshot())
    assert found.pod.spec.node_selector == {"disk": "ssd"} and found.unknown == ()


def test_pods_of_an_older_revision_do_not_count() -> None:
    cluster, workload = web(spec={"nodeSelector": {"disk": "ssd"}})
    cluster.replica_set("web", 2, "hash2")
    assert next_pod(workload, cluster.snapshot()).pod.spec.node_selector is None


def test_before_the_controller_has_seen_a_new_template_the_template_counts() -> None:
    cluster, workload = web(spec={"nodeSelector": {"disk": "ssd"}})
    newer = replace(workload, metadata=replace(workload.metadata, generation=2))
    assert next_pod(newer, cluster.snapshot()).pod.spec.node_selector is None


def test_a_change_that_leaves_the_template_alone_does_not_hide_the_live_pods() -> None:
    cluster, workload = web(spec={"nodeSelector": {"disk": "ssd"}})
    template = workload.spec.template
    labels = {**(template.metadata.labels or {}), HASH: "hash1"}
    known = replace(template, metadata=replace(template.metadata, labels=labels))
    cluster.replica_sets[0] = replace(cluster.replica_sets[0], spec=replace(cluster.replica_sets[0].spec, template=known))
    annotated = replace(workload, metadata=replace(workload.metadata, generation=2))
    assert next_pod(annotated, cluster.snapshot()).pod.spec.node_selector == {"disk": "ssd"}


def test_a_runtime_class_is_unknown_until_a_pod_shows_what_it_adds() -> None:
    template = {"spec": {"runtimeClassName": "gvisor"}}
    cluster, workload = web(0, template=template)
    assert [reason.code for reason in next_pod(workload, cluster.snapshot()).unknown] == ["runtime_class"]
    cluster, workload = web(1, template=template)
    assert next_pod(workload, cluster.snapshot()).unknown == ()


# --- pods that differ -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"nodeSelector": {"disk": "ssd"}}, "spec.nodeSelector"),
        ({"tolerations": NODE_LIFE}, "spec.tolerations"),
        ({"schedulerName": "mine"}, "spec.schedulerName"),
        ({"hostNetwork": True}, "spec.hostNetwork"),
        ({"priority": 1}, "spec.priority"),
        ({"overhead": {"cpu": "1"}}, "spec.overhead"),
        ({"runtimeClassName": "gvisor"}, "spec.runtimeClassName"),
        ({"resourceClaims": [{"name": "gpu"}]}, "spec.resourceClaims"),
        ({"affinity": {"podAntiAffinity": {}}}, "spec.affinity"),
        ({"topologySpreadConstraints": [{"topologyKey": "zone"}]}, "spec.topologySpreadConstraints"),
        ({"containers": [container(), container("proxy")]}, "spec.containers of"),
        ({"containers": [container(cpu="1")]}, "spec.containers[main].resources"),
        ({"containers": [container(ports=[{"hostPort": 80, "containerPort": 80}])]}, "spec.containers of"),
        ({"initContainers": [container("first")]}, "spec.initContainers"),
        ({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}, "spec.volumes"),
    ],
)
def test_pods_that_differ_leave_it_unknown_by_the_name_of_the_field(spec: Json, field: str) -> None:
    cluster, workload = web()
    change(cluster, 1, spec=spec)
    found = next_pod(workload, cluster.snapshot())
    assert [reason.code for reason in found.unknown] == ["pods_differ"] and field in fields(found)
    assert found.pod.spec.node_selector is None, "the template's pod stands for it"


def test_images_may_differ() -> None:
    cluster, workload = web()
    change(cluster, 0, spec={"containers": [container(image="web:1")]})
    change(cluster, 1, spec={"containers": [container(image="web:2")]})
    assert not next_pod(workload, cluster.snapshot()).unknown
    change(cluster, 1, spec={"containers": [container(cpu="1", image="web:2")]})
    assert "spec.containers[main].resources" in fields(next_pod(workload, cluster.snapshot()))


@pytest.mark.parametrize(("generation", "image"), [(1, "live"), (2, "wanted")])
def test_where_all_pods_were_changed_the_images_of_the_template_count(generation: int, image: str) -> None:
    """Without a change of the pods, the other image comes from admission, and a new pod gets it as well."""
    template = {"spec": {"containers": [container(image="wanted")]}}
    changed = {"metadata": {"generation": generation}, "spec": {"containers": [container(image="live")]}}
    cluster, workload = web(template=template, **changed)
    found = next_pod(workload, cluster.snapshot())
    assert [one.image for one in found.pod.spec.containers] == [image]


def test_volumes_that_bind_no_pod_to_a_node_may_differ() -> None:
    cluster, workload = web()
    change(cluster, 0, spec={"volumes": [{"name": "kube-api-access-1"}, {"name": "tmp", "emptyDir": {}}]})
    change(cluster, 1, spec={"volumes": [{"name": "kube-api-access-2"}]})
    assert next_pod(workload, cluster.snapshot()).unknown == ()


# --- what changes after the creation ----------------------------------------------------------------------------------

RESIZED: Json = {"generation": 2, "managedFields": [{"manager": "kubectl", "subresource": "resize"}, {"manager": "kubelet"}]}


def test_a_toleration_that_was_added_by_hand_stays_with_its_pod() -> None:
    cluster, workload = web(metadata={"generation": 1}, spec={"tolerations": NODE_LIFE})
    change(cluster, 1, metadata={"generation": 2}, spec={"tolerations": [*NODE_LIFE, {"operator": "Exists"}]})
    found = next_pod(workload, cluster.snapshot())
    assert found.unknown == () and len(found.pod.spec.tolerations or ()) == 2


def test_a_toleration_that_all_pods_may_have_got_later_is_unknown() -> None:
    cluster, workload = web(metadata={"generation": 2}, spec={"tolerations": [*NODE_LIFE, {"operator": "Exists"}]})
    assert "spec.tolerations" in fields(next_pod(workload, cluster.snapshot()))
    cluster, workload = web(metadata={"generation": 2}, spec={"tolerations": NODE_LIFE})
    assert next_pod(workload, cluster.snapshot()).unknown == ()


def test_a_younger_pod_without_a_toleration_that_others_have_is_a_difference() -> None:
    cluster, workload = web(metadata={"generation": 1}, spec={"tolerations": [{"operator": "Exists"}]})
    change(cluster, 1, metadata={"generation": 2}, spec={"tolerations": NODE_LIFE})
    assert "spec.tolerations" in fields(next_pod(workload, cluster.snapshot()))


def test_a_resized_pod_does_not_count_beside_one_that_is_not() -> None:
    cluster, workload = web(spec={"containers": [container(cpu="300m"), container("proxy", "500m")]})
    change(cluster, 1, metadata=RESIZED, spec={"containers": [container(cpu="3"), container("proxy", "2")]})
    found = next_pod(workload, cluster.snapshot())
    assert found.unknown == () and asked(found.pod) == {"main": {"cpu": "300m"}, "proxy": {"cpu": "500m"}}


def test_a_resized_pod_with_another_container_is_a_difference_nevertheless() -> None:
    cluster, workload = web()
    change(cluster, 1, metadata=RESIZED, spec={"containers": [container(cpu="3"), container("proxy")]})
    assert "spec.containers" in fields(next_pod(workload, cluster.snapshot()))


def test_where_all_pods_were_resized_the_templates_cpu_and_memory_count() -> None:
    resources = {"requests": {"cpu": "3", "memory": "1Gi", "nvidia.com/gpu": "1"}, "limits": {"cpu": "4", "nvidia.com/gpu": "1"}}
    cluster, workload = web(metadata=RESIZED, spec={"containers": [{"name": "main", "resources": resources}]})
    found = next_pod(workload, cluster.snapshot())
    assert found.unknown == () and asked(found.pod) == {"main": {"cpu": "100m", "nvidia.com/gpu": "1"}}


@pytest.mark.parametrize(
    ("metadata", "containers", "field"),
    [
        ({}, [container(), container("proxy", "500m")], "spec.containers[proxy].resources"),
        ({"annotations": {"vpaUpdates": "Pod resources updated by main"}}, [container(cpu="1")], "spec.containers[main].resources"),
    ],
)
def test_where_all_pods_were_resized_what_admission_gave_is_unknown(metadata: Json, containers: list[Json], field: str) -> None:
    cluster, workload = web(metadata={**RESIZED, **metadata}, spec={"containers": containers})
    assert field in fields(next_pod(workload, cluster.snapshot()))


def test_gates_that_are_gone_come_back_with_a_new_pod() -> None:
    cluster, workload = web(template={"spec": {"schedulingGates": [{"name": "wait"}]}}, spec={"schedulingGates": None})
    assert [gate.name for gate in next_pod(workload, cluster.snapshot()).pod.spec.scheduling_gates or ()] == ["wait"]
    cluster, workload = web()
    change(cluster, 1, metadata={"generation": 1}, spec={"nodeName": "", "schedulingGates": [{"name": "quota"}]}, phase="Pending")
    assert [gate.name for gate in next_pod(workload, cluster.snapshot()).pod.spec.scheduling_gates or ()] == ["quota"]


WRITTEN_WHILE_GATED: list[tuple[Json, str]] = [
    ({"nodeSelector": {"disk": "ssd"}}, "spec.nodeSelector"),
    (
        {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}}},
        "spec.affinity",
    ),
]


@pytest.mark.parametrize(("spec", "field"), WRITTEN_WHILE_GATED, ids=["selector", "affinity"])
def test_what_all_pods_may_have_got_while_they_were_gated_is_unknown(spec: Json, field: str) -> None:
    cluster, workload = web(metadata={"generation": 2}, spec=spec)
    found = next_pod(workload, cluster.snapshot())
    assert [reason.code for reason in found.unknown] == ["pods_differ"] and field in fields(found)
    assert found.pod.spec.node_selector is None and found.pod.spec.affinity is None


@pytest.mark.parametrize(("spec", "field"), WRITTEN_WHILE_GATED, ids=["selector", "affinity"])
def test_with_a_gate_in_the_template_an_addition_is_unknown_on_servers_that_count_no_changes(spec: Json, field: str) -> None:
    cluster, workload = web(template={"spec": {"schedulingGates": [{"name": "wait"}]}}, spec={**spec, "schedulingGates": None})
    assert field in fields(next_pod(workload, cluster.snapshot()))


@pytest.mark.parametrize(("spec", "field"), WRITTEN_WHILE_GATED, ids=["selector", "affinity"])
def test_a_pod_that_was_never_changed_beside_one_that_was_gated_is_a_difference(spec: Json, field: str) -> None:
    cluster, workload = web(metadata={"generation": 1})
    change(cluster, 1, metadata={"generation": 2}, spec=spec)
    assert field in fields(next_pod(workload, cluster.snapshot()))


def test_an_edited_pod_with_the_node_selector_of_its_template_is_sure() -> None:
    cluster, workload = web(
        template={"spec": {"nodeSelector": {"disk": "ssd"}}}, metadata={"generation": 2}, spec={"nodeSelector": {"disk": "ssd"}}
    )
    assert next_pod(workload, cluster.snapshot()).unknown == ()


@pytest.mark.parametrize(("writers", "unsure"), [([{}], False), ([{}, {}], True), ([{}, {"subresource": "status"}], False)])
def test_a_resize_alone_does_not_make_the_node_selector_of_admission_unknown(writers: list[Json], unsure: bool) -> None:
    metadata = {"generation": 3, "managedFields": [*writers, {"subresource": "resize"}]}
    cluster, workload = web(metadata=metadata, spec={"nodeSelector": {"disk": "ssd"}, "containers": [container()]})
    assert ("spec.nodeSelector" in fields(next_pod(workload, cluster.snapshot()))) is unsure


# --- labels that differ -----------------------------------------------------------------------------------------------


def anti_affinity(key: str) -> Json:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchExpressions": [{"key": key, "operator": "Exists"}]}}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def test_a_label_by_which_an_operator_marks_its_leader_is_not_one_of_a_new_pod() -> None:
    cluster, workload = web()
    change(cluster, 0, metadata={"labels": {"app": "web", "role": "leader"}})
    found = next_pod(workload, cluster.snapshot())
    assert found.unknown == () and found.pod.metadata.labels == {"app": "web", HASH: "next-web"}


def test_a_label_of_the_template_that_was_changed_by_hand_comes_back() -> None:
    cluster, workload = web(template={"metadata": {"labels": {"app": "web", "track": "stable"}}})
    change(cluster, 0, metadata={"labels": {"app": "web", "track": "debug"}})
    change(cluster, 1, metadata={"labels": {"app": "web", "track": "stable"}})
    assert (next_pod(workload, cluster.snapshot()).pod.metadata.labels or {})["track"] == "stable"


@pytest.mark.parametrize("of_another", [False, True])
def test_a_label_that_differs_is_unknown_where_a_selector_that_counts_asks_for_it(of_another: bool) -> None:
    cluster, workload = web(spec={} if of_another else anti_affinity("role"))
    if of_another:
        cluster.pod("other", "worker-2", template={"metadata": {}, "spec": {"containers": [container()], **anti_affinity("role")}})
    change(cluster, 0, metadata={"labels": {"app": "web", "role": "leader"}})
    assert "metadata.labels[role]" in fields(next_pod(workload, cluster.snapshot()))


TEAM = {"team": "shop"}


@pytest.mark.parametrize(
    ("of", "term", "counts"),
    [
        ("other", {}, False),
        ("app", {}, True),
        ("other", {"namespaces": ["app"]}, True),
        ("other", {"namespaces": ["third"]}, False),
        ("app", {"namespaces": ["third"]}, False),
        ("other", {"namespaceSelector": {}}, True),
        ("other", {"namespaceSelector": {"matchLabels": TEAM}}, True),
        ("other", {"namespaceSelector": {"matchLabels": {"team": "bank"}}}, False),
        ("app", {"namespaceSelector": {"matchLabels": {"team": "bank"}}}, False),
        ("other", {"namespaces": ["app"], "namespaceSelector": {"matchLabels": {"team": "bank"}}}, True),
        ("other", {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["bank"]}]}}, True),
        ("other", {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["shop"]}]}}, False),
        ("other", {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}, False),
    ],
)
def test_only_anti_affinity_that_is_for_the_namespace_makes_a_differing_label_unknown(of: str, term: Json, counts: bool) -> None:
    found, others = next_pods_beside(of, term, namespaces=[{"metadata": {"name": "app", "labels": TEAM}}])
    assert ("metadata.labels[role]" in fields(found)) is counts, others


@pytest.mark.parametrize(("term", "counts"), [({"namespaceSelector": {"matchLabels": TEAM}}, True), ({"namespaces": ["third"]}, False)])
def test_in_a_namespace_that_cannot_be_read_each_namespace_selector_counts(term: Json, counts: bool) -> None:
    found, others = next_pods_beside("other", term, namespaces=[])
    assert ("metadata.labels[role]" in fields(found)) is counts, others


def next_pods_beside(of: str, term: Json, *, namespaces: list[Json]) -> tuple[NextPod, Pod]:
    """The next pod of a workload whose pods differ in the label ``role``, beside a pod with a term that asks for that label."""
    cluster, workload = web()
    cluster.namespaces[:] = [decode_json(Namespace, encode_json(namespace)) for namespace in namespaces]
    spec = anti_affinity("role")
    spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0].update(term)
    cluster.pod("other", "worker-2", template={"metadata": {}, "spec": {"containers": [container()], **spec}}, namespace=of)
    change(cluster, 0, metadata={"labels": {"app": "web", "role": "leader"}})
    return next_pod(workload, cluster.snapshot()), cluster.pods[-1]


# --- revisions and ordinals -------------------------------------------------------------------------------------------


def term(hash_value: str, **keys: t.Any) -> Json:
    """A term as the API server has it of a pod with that hash."""
    merged = [{"key": HASH, "operator": "In", "values": [hash_value]}]
    return {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}, "matchExpressions": merged}, **keys}


@pytest.mark.parametrize("merged", [True, False], ids=["merged", "by an admission plugin"])
def test_selectors_ask_for_the_revision_of_the_new_pod(merged: bool) -> None:
    keys = {"matchLabelKeys": [HASH]} if merged else {}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term("hash1", **keys)]}}
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term("hash1", **keys)}
    cluster, workload = web(
        metadata={"labels": {"app": "web", HASH: "hash1"}}, spec={"affinity": affinity, "topologySpreadConstraints": [constraint]}
    )
    for revision in ("next-web", "hash1"):
        text = encode_json(next_pod(workload, cluster.snapshot(), revision=revision).pod.spec.affinity).decode()
        assert text.count(f'"values":["{revision}"]') == 1 and text.count('"key":"pod-template-hash"') == 1, text
    spec = next_pod(workload, cluster.snapshot()).pod.spec
    assert b"hash1" not in encode_json(spec)


@pytest.mark.parametrize(
    ("expressions", "labels", "kept"),
    [
        ([("Exists",), ("NotIn", "one")], {"tenant": "one"}, 1),
        ([("NotIn", "one"), ("NotIn", "one")], {"tenant": "one"}, 2),
        ([("NotIn", "one", "two"), ("NotIn", "one")], {"tenant": "one"}, 1),
        ([("NotIn", "one")], {}, 1),
    ],
)
def test_keys_to_mismatch_are_merged_once_and_the_users_own_expressions_stay(
    expressions: list[tuple[str, ...]], labels: dict[str, str], kept: int
) -> None:
    selector = {"matchExpressions": [{"key": "tenant", "operator": operator, "values": values} for operator, *values in expressions]}
    apart = {"topologyKey": "zone", "mismatchLabelKeys": ["tenant"], "labelSelector": selector}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    cluster, workload = web(metadata={"labels": {"app": "web", **labels}}, spec={"affinity": affinity})
    found = next_pod(workload, cluster.snapshot())
    text = encode_json(found.pod.spec.affinity).decode()
    assert found.unknown == () and text.count('"operator":"NotIn","values":["one"]') == kept
    assert text.count('"key":"tenant"') == len(expressions)


def database(claims: bool = True, *, spec: Json | None = None) -> tuple[ClusterBuilder, Workload]:
    cluster = workers(2)
    templates = [{"metadata": {"name": "data"}}] if claims else []
    workload = cluster.stateful_set("db", ["worker-1"] * 3, volumeClaimTemplates=templates)
    for number in range(3):
        labels = {
            "app": "db",
            "controller-revision-hash": "rev1",
            "statefulset.kubernetes.io/pod-name": f"db-{number}",
            "apps.kubernetes.io/pod-index": str(number),
        }
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-db-{number}"}}
        change(cluster, number, metadata={"labels": labels}, spec={**(spec or {}), "volumes": [volume] if claims else []})
    return cluster, workload


def test_each_replica_of_a_stateful_set_has_its_own_labels_and_claims() -> None:
    cluster, workload = database(spec={"nodeSelector": {"disk": "ssd"}})
    for number in range(5):
        found = next_pod(workload, cluster.snapshot(), ordinal=number, revision="rev1")
        claimed = [volume.persistent_volume_claim for volume in found.pod.spec.volumes or ()]
        assert found.unknown == () and [claim.claim_name for claim in claimed if claim] == [f"data-db-{number}"]
        assert found.pod.metadata.labels == {
            "app": "db",
            "controller-revision-hash": "rev1",
            "statefulset.kubernetes.io/pod-name": f"db-{number}",
            "apps.kubernetes.io/pod-index": str(number),
        }
        assert found.pod.spec.node_selector == {"disk": "ssd"}


def test_terms_that_are_merged_with_a_replicas_own_name_are_no_difference() -> None:
    cluster, workload = database(claims=False)
    name = "statefulset.kubernetes.io/pod-name"
    for number in range(3):
        selector = {"matchLabels": {"app": "db"}, "matchExpressions": [{"key": name, "operator": "In", "values": [f"db-{number}"]}]}
        merged = {"topologyKey": "zone", "matchLabelKeys": [name], "labelSelector": selector}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [merged]}}
        change(cluster, number, spec={"affinity": affinity})
    found = next_pod(workload, cluster.snapshot(), ordinal=7)
    text = encode_json(found.pod.spec.affinity)
    assert found.unknown == () and b'"values":["db-7"]' in text and b"db-2" not in text


def test_a_selector_for_another_replica_by_its_name_stays() -> None:
    near = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"statefulset.kubernetes.io/pod-name": "db-0"}}}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [near]}}
    cluster, workload = database(claims=False, spec={"affinity": affinity})
    assert b"db-0" in encode_json(next_pod(workload, cluster.snapshot(), ordinal=2).pod.spec.affinity)


def test_pods_that_a_partition_keeps_at_an_older_revision_do_not_count() -> None:
    cluster = workers(2)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    workload = cluster.stateful_set("db", ["worker-1"] * 3, updateStrategy=strategy)
    for number in range(2):
        change(
            cluster, number, metadata={"labels": {"app": "db", "controller-revision-hash": "rev0"}}, spec={"nodeSelector": {"disk": "hdd"}}
        )
    found = next_pod(workload, cluster.snapshot())
    assert found.unknown == () and found.pod.spec.node_selector is None


# --- defaults of LimitRanges ------------------------------------------------------------------------------------------

BARE: Json = {"spec": {"containers": [{"name": "main"}], "initContainers": [{"name": "first"}]}}


def given(text: str) -> Json:
    return {"annotations": {"kubernetes.io/limit-ranger": f"LimitRanger plugin set: {text}"}}


@pytest.mark.parametrize("live", [0, 2])
def test_defaults_fill_what_containers_do_not_ask_for(live: int) -> None:
    cluster, workload = web(live, template=BARE)
    cluster.limit_range(default={"cpu": "1", "memory": "1Gi"}, defaultRequest={"cpu": "200m", "memory": "1Gi"})
    cluster.limit_ranges.append(cluster.limit_ranges[0])
    found = next_pod(workload, cluster.snapshot())
    assert found.unknown == ()
    assert asked(found.pod) == {name: {"cpu": "200m", "memory": "1Gi"} for name in ("main", "first")}


def test_a_limit_of_the_container_is_its_request_before_any_default() -> None:
    cluster, workload = web(0, template={"spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]}})
    cluster.limit_range(default={"cpu": "1"}, defaultRequest={"cpu": "200m"})
    assert asked(next_pod(workload, cluster.snapshot()).pod) == {"main": {"cpu": "2"}}


def test_two_limit_ranges_that_disagree_are_unknown_only_where_a_default_is_needed() -> None:
    for template, expected in ((BARE, ["limit_range"]), (None, [])):
        cluster, workload = web(1, template=template)
        cluster.limit_range(defaultRequest={"cpu": "200m"})
        cluster.limit_range(defaultRequest={"cpu": "300m"})
        assert [reason.code for reason in next_pod(workload, cluster.snapshot()).unknown] == expected


def test_what_a_limit_range_gave_is_replaced_by_what_it_gives_now() -> None:
    text = "cpu, memory request for container main; cpu limit for container main; cpu request for init container first"
    spec = {
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1", "memory": "1Gi", "disk": "1"}, "limits": {"cpu": "1"}}}],
        "initContainers": [container("first", "1")],
    }
    cluster, workload = web(template=BARE, metadata=given(text), spec=spec)
    assert asked(next_pod(workload, cluster.snapshot()).pod) == {"main": {"disk": "1"}, "first": {}}
    cluster.limit_range(defaultRequest={"cpu": "3"})
    assert asked(next_pod(workload, cluster.snapshot()).pod) == {"main": {"disk": "1", "cpu": "3"}, "first": {"cpu": "3"}}


def test_unreadable_limit_ranges_leave_what_they_gave() -> None:
    cluster, workload = web(template=BARE, metadata=given("cpu request for container main"), spec={"containers": [container(cpu="1")]})
    snapshot = cluster.snapshot(skipped=[Skipped("limitranges", "app", "forbidden")])
    assert asked(next_pod(workload, snapshot).pod)["main"] == {"cpu": "1"}


def test_an_annotation_takes_nothing_away_that_the_template_asks_for() -> None:
    cluster, workload = web(metadata=given("cpu request for container main"))
    assert asked(next_pod(workload, cluster.snapshot()).pod) == {"main": {"cpu": "100m"}}
    forged = {**BARE, "metadata": given("cpu request for container main")}
    cluster, workload = web(template=forged, metadata=given("cpu request for container main"), spec={"containers": [container(cpu="1")]})
    assert asked(next_pod(workload, cluster.snapshot()).pod)["main"] == {"cpu": "1"}
