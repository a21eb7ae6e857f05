# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Claims and volumes: which nodes they leave open, in the scheduler's words."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod, PodTemplate
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.workload import Workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.pod_template import pod_of_template, pod_of_workload
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import Feasibility, FilterRunner, find_feasible

from tests.unit.support.cluster import cluster_state, feasibility_of
from tests.unit.support.objects import (
    CSI,
    DRIVER,
    LOCAL,
    attachment,
    capacity,
    claim,
    container,
    csi,
    csi_driver,
    csi_node,
    ephemeral,
    mounts,
    node,
    node_affinity,
    pod,
    storage_class,
    stored,
    volume,
)

HOST = "kubernetes.io/hostname"
ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
NODES = [node(name, labels={HOST: name}) for name in ("node-1", "node-2")]


def said(found: Feasibility) -> t.Any:
    """The one text for all nodes, the texts by node, or the doubts."""
    if found.unknown or found.unknown_nodes:
        return {reason.code for reasons in (found.unknown, *found.unknown_nodes.values()) for reason in reasons}
    texts = {name: [reason.text for reason in reasons] for name, reasons in found.rejected.items()}
    whole = {tuple(reasons) for reasons in texts.values()}
    return whole.pop()[0] if len(whole) == 1 and len(texts) == len(NODES) else texts


def template(**spec: t.Any) -> Pod:
    """The pod that a template would make."""
    return pod_of_template("default", decode_json(PodTemplate, encode_json({"spec": {"containers": [container()], **spec}})))


NO_MATCH = "node(s) didn't find available persistent volumes to bind"
CONFLICT = "node(s) didn't match PersistentVolume's node affinity"


# --- what closes all nodes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "volumes", "text"),
    [
        ([], [], 'persistentvolumeclaim "data" not found'),
        ([claim(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})], [], 'persistentvolumeclaim "data" is being deleted'),
        (
            [claim(to="gone", status={"phase": "Lost"})],
            [],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "gone"',
        ),
        ([claim(to="gone")], [], 'persistentvolume "gone" not found'),
        ([claim(storageClassName="")], [], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim(storageClassName=None)], [], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim(storageClassName="no-such-class")], [], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim(storageClassName="now")], [], "pod has unbound immediate PersistentVolumeClaims"),
        ([claim(to="v", annotations={"pv.kubernetes.io/bind-completed": "yes"})], [volume("v")], {}),
    ],
)
def test_a_claim_may_close_every_node(claims: list[t.Any], volumes: list[t.Any], text: t.Any) -> None:
    storage = stored(*volumes, classes=(LOCAL, CSI, storage_class("now", mode="Immediate")))
    assert said(feasibility_of(pod(volumes=mounts("data")), NODES, claims=claims, storage=storage)) == text


def test_a_volume_named_in_a_claim_is_not_bound_before_the_controller_says_so() -> None:
    half = claim(volumeName="v")
    half = decode_json(type(half), encode_json({"metadata": {"name": "data", "namespace": "default"}, "spec": {"volumeName": "v"}}))
    found = feasibility_of(pod(volumes=mounts("data")), NODES, claims=[half], storage=stored(volume("v")))
    assert said(found) == "pod has unbound immediate PersistentVolumeClaims"


def test_a_closing_claim_is_named_before_any_node_is_checked_but_after_names_that_clash() -> None:
    names = [{"key": "metadata.name", "operator": "In", "values": [name]} for name in ("node-1", "node-2")]
    small = [node("node-1", cordoned=True), node("node-2", allocatable={"cpu": "1m"})]
    gone = pod({"cpu": "1"}, volumes=mounts("gone"), affinity=node_affinity({"matchFields": names[:1]}))
    assert said(feasibility_of(gone, small, storage=stored())) == 'persistentvolumeclaim "gone" not found'
    clashing = pod(volumes=mounts("gone"), affinity=node_affinity({"matchFields": names}))
    assert said(feasibility_of(clashing, small, storage=stored())) == "pod affinity terms conflict"


def test_claims_that_the_pod_names_are_searched_before_any_claim_is_judged() -> None:
    lost = claim("lost", to="x", status={"phase": "Lost"})
    found = feasibility_of(pod(volumes=mounts("lost", "gone")), NODES, claims=[lost], storage=stored())
    assert said(found) == 'persistentvolumeclaim "gone" not found'


# --- volumes that are bound -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        ([volume("v", on="node-1")], {"node-2": [CONFLICT]}),
        ([volume("v")], {}),
        ([volume("v", labels={ZONE: "a"})], {}),
    ],
)
def test_a_bound_volume_must_be_in_reach(volumes: list[t.Any], expected: t.Any) -> None:
    assert said(feasibility_of(pod(volumes=mounts("data")), NODES, claims=[claim(to="v")], storage=stored(*volumes))) == expected


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}, {}),
        ({"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["node-1"]}]}, {}),
        (
            {
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}],
                "matchExpressions": [{"key": HOST, "operator": "In", "values": ["node-2"]}],
            },
            {"node-1": [CONFLICT]},
        ),
        ({}, CONFLICT),
    ],
)
def test_a_volume_s_affinity_knows_labels_and_no_node_names(term: t.Any, expected: t.Any) -> None:
    there = volume("v", nodeAffinity={"required": {"nodeSelectorTerms": [term]}})
    assert said(feasibility_of(pod(volumes=mounts("data")), NODES, claims=[claim(to="v")], storage=stored(there))) == expected


@pytest.mark.parametrize(
    ("labels", "zones", "open_to"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "b"}, {ZONE: "a"}, False),
        ({ZONE: "b"}, {ZONE: "a__b"}, True),
        ({}, {ZONE: "a"}, True),
        ({"topology.kubernetes.io/region": "r"}, {ZONE: "a"}, False),
        ({ZONE: "a"}, {BETA_ZONE: "a"}, True),
        ({BETA_ZONE: "a"}, {ZONE: "a"}, False),
        ({BETA_ZONE: "b", ZONE: "a"}, {BETA_ZONE: "a"}, False),
        ({ZONE: "b"}, {ZONE: "a__"}, True),
    ],
)
def test_zones_of_a_volume(labels: t.Any, zones: t.Any, open_to: bool) -> None:
    found = feasibility_of(
        pod(volumes=mounts("data")), [node(labels=labels)], claims=[claim(to="v")], storage=stored(volume("v", labels=zones))
    )
    assert bool(found.feasible) is open_to
    assert open_to or [reason.text for reason, _count in found.counts()] == ["node(s) had no available volume zone"]


# --- volumes that are not found or made yet --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "volumes", "open_to"),
    [
        ({}, [volume("v", on="node-1")], ["node-1"]),
        ({}, [volume("v")], ["node-1", "node-2"]),
        ({}, [], []),
        ({}, [volume("v", size="1Mi")], []),
        ({}, [volume("v", phase="Released")], []),
        ({}, [volume("v", storageClassName="other")], []),
        ({}, [volume("v", volumeMode="Block")], []),
        ({}, [volume("v", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})], []),
        ({}, [volume("v", claimRef={"namespace": "default", "name": "other"})], []),
        ({}, [volume("v", phase="Pending", claimRef={"namespace": "default", "name": "data"})], ["node-1", "node-2"]),
        ({}, [volume("v", claimRef={"namespace": "default", "name": "data", "uid": "another"})], []),
        ({}, [volume("v", on="node-1", claimRef={"namespace": "default", "name": "data"}), volume("w")], ["node-1"]),
        ({"accessModes": ["ReadWriteMany"]}, [volume("v")], []),
        ({"selector": {"matchLabels": {"tier": "fast"}}}, [volume("v", labels={"tier": "fast"})], ["node-1", "node-2"]),
        ({"selector": {"matchLabels": {"tier": "fast"}}}, [volume("v")], []),
        ({"volumeAttributesClassName": "gold"}, [volume("v")], []),
        ({"volumeAttributesClassName": "gold"}, [volume("v", volumeAttributesClassName="gold")], ["node-1", "node-2"]),
    ],
)
def test_a_claim_finds_a_volume_that_fits(asked: t.Any, volumes: list[t.Any], open_to: list[str]) -> None:
    found = feasibility_of(pod(volumes=mounts("data")), NODES, claims=[claim(**asked)], storage=stored(*volumes))
    assert list(found.feasible) == open_to
    assert {reason.text for reason, _count in found.counts()} <= {NO_MATCH}


def test_the_smallest_claim_chooses_first_and_the_smallest_volume() -> None:
    claims = [claim("big", resources={"requests": {"storage": "2Gi"}}), claim("small")]
    both = pod(volumes=mounts("big", "small"))
    assert feasibility_of(both, NODES[:1], claims=claims, storage=stored(volume("v", size="3Gi"), volume("w", size="1Gi"))).feasible
    assert not feasibility_of(both, NODES[:1], claims=claims, storage=stored(volume("v", size="3Gi"))).feasible


def test_a_choice_between_equal_volumes_is_unknown_only_where_it_matters() -> None:
    claims = [claim("a"), claim("b", selector={"matchLabels": {"tier": "fast"}})]
    both = pod(volumes=mounts("a", "b"))
    unlike = stored(volume("v", labels={"tier": "fast"}), volume("w"))
    assert said(feasibility_of(both, NODES, claims=claims, storage=unlike)) == {"volume_choice"}
    alike = stored(volume("v", labels={"tier": "fast"}), volume("w", labels={"tier": "fast"}))
    assert said(feasibility_of(both, NODES, claims=claims, storage=alike)) == {}


@pytest.mark.parametrize(
    ("topologies", "labels", "open_to"),
    [
        (None, {}, True),
        ([{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}], {"zone": "a"}, True),
        ([{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}], {}, False),
        ([{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}, {"key": "disk", "values": ["ssd"]}]}], {"zone": "a"}, False),
        ([{}], {}, False),
    ],
)
def test_where_a_class_makes_volumes(topologies: t.Any, labels: t.Any, open_to: bool) -> None:
    storage = stored(classes=(storage_class("csi", allowedTopologies=topologies),))
    found = feasibility_of(pod(volumes=mounts("data")), [node(labels=labels)], claims=[claim(storageClassName="csi")], storage=storage)
    assert bool(found.feasible) is open_to


def test_a_volume_is_made_on_the_node_that_was_chosen_for_it() -> None:
    promised = claim(storageClassName="csi", annotations={"volume.kubernetes.io/selected-node": "node-2"})
    assert said(feasibility_of(pod(volumes=mounts("data")), NODES, claims=[promised], storage=stored())) == {"node-1": [NO_MATCH]}


@pytest.mark.parametrize(
    ("published", "open_to"),
    [
        ([], False),
        ([capacity(capacity="1Gi", nodeTopology={"matchLabels": {"zone": "a"}})], True),
        ([capacity(capacity="1Gi", nodeTopology={})], True),
        ([capacity(capacity="1Gi")], False),
        ([capacity(capacity="1Gi", nodeTopology={"matchLabels": {"zone": "b"}})], False),
        ([capacity(capacity="1Mi", nodeTopology={})], False),
        ([capacity(capacity="9Gi", maximumVolumeSize="1Mi", nodeTopology={})], False),
        ([capacity(nodeTopology={"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, maximumVolumeSize="1Gi")], True),
    ],
)
def test_capacity_that_a_driver_publishes(published: list[t.Any], open_to: bool) -> None:
    storage = stored(drivers=(csi_driver(),), capacities=tuple(published))
    found = feasibility_of(
        pod(volumes=mounts("data")), [node(labels={"zone": "a"})], claims=[claim(storageClassName="csi")], storage=storage
    )
    assert bool(found.feasible) is open_to
    assert open_to or [reason.text for reason, _count in found.counts()] == ["node(s) did not have enough free storage"]


# --- claims that are not made yet -------------------------------------------------------------------------------------


def test_an_ephemeral_volume_waits_for_its_claim_which_must_be_its_own() -> None:
    new = pod(volumes=ephemeral(storageClassName="csi"))
    name = f"{new.metadata.name}-scratch"
    text = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
    assert said(feasibility_of(new, NODES, storage=stored())) == text
    owner = {"kind": "Pod", "name": new.metadata.name, "controller": True}
    own = claim(name, storageClassName="csi", metadata={"ownerReferences": [{**owner, "uid": new.metadata.uid}]})
    assert said(feasibility_of(new, NODES, claims=[own], storage=stored())) == {}
    other = claim(name, storageClassName="csi", metadata={"ownerReferences": [{**owner, "uid": "x"}]})
    text = f"PVC default/{name} was not created for pod default/{new.metadata.name} (pod is not owner)"
    assert said(feasibility_of(new, NODES, claims=[other], storage=stored())) == text
    lost = claim(name, to="gone", metadata={"ownerReferences": [{**owner, "uid": new.metadata.uid}]})
    text = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
    assert said(feasibility_of(new, NODES, claims=[lost], storage=stored())) == text


@pytest.mark.parametrize(
    ("asked", "classes", "expected"),
    [
        ({"storageClassName": "csi"}, (CSI,), {}),
        ({"storageClassName": "local"}, (LOCAL,), {"node-2": [NO_MATCH]}),
        ({"storageClassName": "now"}, (storage_class("now", mode="Immediate"),), {"claim_to_be_bound"}),
        ({"storageClassName": ""}, (CSI,), {"claim_to_be_bound"}),
        ({}, (CSI,), {"claim_to_be_bound"}),
        ({}, (storage_class("csi", annotations={"storageclass.kubernetes.io/is-default-class": "true"}),), {}),
        (
            {},
            tuple(storage_class(name, annotations={"storageclass.kubernetes.io/is-default-class": "true"}) for name in ("a", "b")),
            {"default_storage_class"},
        ),
    ],
)
def test_a_template_s_ephemeral_claim_is_judged_by_its_class(asked: t.Any, classes: t.Any, expected: t.Any) -> None:
    storage = stored(volume("v", on="node-1"), classes=classes)
    assert said(feasibility_of(template(volumes=ephemeral(**asked)), NODES, storage=storage)) == expected


def test_a_stateful_set_s_pod_has_the_claims_of_its_ordinal() -> None:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "csi"}
    spec = {
        "template": {"spec": {"containers": [container()], "volumes": [{"name": "data", "emptyDir": {}}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": wanted}],
    }
    db = decode_json(Workload, encode_json({"metadata": {"name": "db", "namespace": "default"}, "spec": spec}))
    claims = [claim("data-db-0", to="v"), claim("data-db-1", to="w")]
    storage = stored(volume("v", on="node-1"), volume("w", on="node-2"))
    feasible = [feasibility_of(pod_of_workload(db, ordinal=number), NODES, claims=claims, storage=storage).feasible for number in range(3)]
    assert feasible == [("node-1",), ("node-2",), ("node-1", "node-2")]


def test_volumes_that_simulated_pods_may_have_taken_are_unknown() -> None:
    storage = stored(volume("v", on="node-1"), volume("w", on="node-2"))
    new = template(volumes=ephemeral(storageClassName="local"))
    now = cluster_state(NODES, storage=storage)
    assert said(find_feasible(new, now)) == {}
    now.assign(pod(volumes=ephemeral(storageClassName="local")), "node-1")
    assert said(find_feasible(new, now)) == {"volume_choice"}


# --- disks and claims of other pods -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mine", "other", "free"),
    [
        ({"gcePersistentDisk": {"pdName": "d"}}, {"gcePersistentDisk": {"pdName": "d"}}, False),
        ({"gcePersistentDisk": {"pdName": "d"}}, {"gcePersistentDisk": {"pdName": "e"}}, True),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, {"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, True),
        ({"gcePersistentDisk": {"pdName": "d", "readOnly": True}}, {"gcePersistentDisk": {"pdName": "d"}}, False),
        ({"awsElasticBlockStore": {"volumeID": "d"}}, {"awsElasticBlockStore": {"volumeID": "d", "readOnly": True}}, False),
        ({"iscsi": {"iqn": "i"}}, {"iscsi": {"iqn": "i"}}, False),
        ({"iscsi": {"iqn": "i", "readOnly": True}}, {"iscsi": {"iqn": "i", "readOnly": True}}, True),
        ({"rbd": {"monitors": ["a", "b"], "image": "i"}}, {"rbd": {"monitors": ["b"], "image": "i", "pool": "rbd"}}, False),
        ({"rbd": {"monitors": ["a"], "image": "i"}}, {"rbd": {"monitors": ["b"], "image": "i"}}, True),
        ({"rbd": {"monitors": ["a"], "image": "i"}}, {"rbd": {"monitors": ["a"], "image": "i", "pool": "p"}}, True),
        ({"azureDisk": {"diskName": "d"}}, {"azureDisk": {"diskName": "d"}}, True),
        ({"csi": {"driver": "d"}}, {"csi": {"driver": "d"}}, True),
    ],
)
def test_disks_that_one_node_mounts_once(mine: t.Any, other: t.Any, free: bool) -> None:
    there = pod(on="node-1", volumes=[{"name": "d", **other}])
    found = feasibility_of(pod(volumes=[{"name": "d", **mine}]), NODES, [there])
    assert found.feasible == (("node-1", "node-2") if free else ("node-2",))
    assert free or [reason.text for reason, _count in found.counts()] == ["node(s) had no available disk"]


def test_a_claim_for_one_pod_closes_every_node_until_its_pod_has_left() -> None:
    single = claim(accessModes=["ReadWriteOncePod"], to="v")
    there = pod(on="node-1", volumes=mounts("data"))
    now = cluster_state(NODES, [there], claims=[single], storage=stored(volume("v")))
    new = pod(volumes=mounts("data"))
    text = "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
    assert said(find_feasible(new, now)) == text
    later = now.fork()
    later.remove(there)
    assert said(find_feasible(new, later)) == {}
    later.assign(there, "node-2")
    assert said(find_feasible(new, later)) == text
    ended = pod(on="node-1", volumes=mounts("data"), status={"phase": "Failed"})
    assert said(feasibility_of(new, NODES, [ended], claims=[single], storage=stored(volume("v")))) == {}


def nominated(node_name: str = "node-1", **spec: t.Any) -> Pod:
    """A pending pod that is nominated for the node."""
    return pod(status={"phase": "Pending", "nominatedNodeName": node_name}, **spec)


DISK, OTHER_DISK = ({"name": name, "gcePersistentDisk": {"pdName": name}} for name in ("one", "other"))


@pytest.mark.parametrize(
    ("mine", "promised", "namespace", "open_to"),
    [
        ([DISK], [DISK], "default", ["node-2"]),
        ([DISK], [OTHER_DISK], "default", ["node-1", "node-2"]),
        # Without a disk the scheduler has skipped its plugin before it comes to nominated pods.
        (mounts("data"), mounts("data"), "default", ["node-1", "node-2"]),
        ([DISK, *mounts("data")], mounts("data"), "default", ["node-2"]),
        ([DISK, *mounts("data")], mounts("data"), "elsewhere", ["node-2"]),
        ([DISK, *mounts("data")], mounts("more"), "default", ["node-1", "node-2"]),
    ],
)
def test_disks_and_claims_of_nominated_pods(mine: t.Any, promised: t.Any, namespace: str, open_to: list[str]) -> None:
    single = claim(accessModes=["ReadWriteOncePod"], to="v")
    found = feasibility_of(
        pod(volumes=mine),
        NODES,
        [nominated(volumes=promised, namespace=namespace)],
        claims=[single],
        storage=stored(volume("v")),
    )
    assert list(found.feasible) == open_to and not found.unknown_nodes


def test_a_claim_in_use_is_told_before_limits_and_places_of_volumes() -> None:
    single = claim(accessModes=["ReadWriteOncePod"], to="v")
    there = pod(on="node-2", volumes=mounts("data"))
    now = cluster_state(NODES, [there], claims=[single], storage=stored(volume("v", on="node-2")))
    asked = FilterRunner(pod(volumes=mounts("data")), now)
    assert [reason.code for reason, _nodes in asked.feasibility().counts()] == ["claim_in_use"]
    now.remove(there)
    assert asked.feasibility() == FilterRunner(pod(volumes=mounts("data")), now).feasibility()
    assert asked.feasibility().feasible == ("node-2",)
    now.assign(pod(volumes=mounts("data")), "node-1")
    assert [reason.code for reason, _nodes in asked.feasibility().counts()] == ["claim_in_use"]


# --- limits -----------------------------------------------------------------------------------------------------------

TOO_MANY = "node(s) exceed max volume count"


def full(*, claims: t.Any = (), storage: t.Any, pods: t.Any = (), names: t.Any = ("new",)) -> bool:
    """True if node-1, which can attach one volume, is rejected for the claims of the pod."""
    found = feasibility_of(pod(volumes=mounts(*names)), NODES[:1], pods, claims=claims, storage=storage)
    assert not found.rejected or [reason.text for reason, _count in found.counts()] == [TOO_MANY]
    return bool(found.rejected)


def test_volumes_of_one_handle_count_once() -> None:
    one = stored(volume("v", **csi("h")), volume("w", **csi("h")), volume("x", **csi("i")), nodes=(csi_node("node-1", limit=1),))
    there = [pod(on="node-1", volumes=mounts("old"))]
    old = claim("old", to="v")
    assert not full(storage=one, pods=there, claims=[old, claim("new", to="w")])
    assert full(storage=one, pods=there, claims=[old, claim("new", to="x")])
    assert not full(storage=one, claims=[claim("new", to="x")])
    assert full(storage=one, claims=[claim("new", to="w"), claim("more", to="x")], names=("new", "more"))


def test_claims_that_are_not_bound_yet_count_by_their_class() -> None:
    one = stored(volume("v", **csi("h")), nodes=(csi_node("node-1", limit=1),))
    there = [pod(on="node-1", volumes=mounts("old"))]
    assert full(storage=one, pods=there, claims=[claim("old", to="v"), claim("new", storageClassName="csi")])
    assert not full(storage=one, pods=there, claims=[claim("new", storageClassName="csi")])


def test_other_drivers_nodes_without_limits_and_other_volumes_do_not_count() -> None:
    two = stored(volume("v", **csi("h")), volume("w", **csi("i", "other")), volume("x"), nodes=(csi_node("node-1", limit=1),))
    there = [pod(on="node-1", volumes=mounts("old"))]
    claims = [claim("old", to="v"), claim("new", to="w"), claim("more", to="x")]
    assert not full(storage=two, pods=there, claims=claims, names=("new", "more"))
    assert not full(storage=stored(*two.volumes), pods=there, claims=[claim("old", to="v"), claim("new", to="v")])


def test_a_node_that_can_attach_none_takes_no_volume() -> None:
    none = stored(volume("v", **csi("h")), nodes=(csi_node("node-1", limit=0),))
    assert full(storage=none, claims=[claim("new", to="v")])


def test_attached_volumes_count_until_the_pod_that_used_them_leaves() -> None:
    volumes = [volume("v", **csi("h")), volume("w", **csi("i"))]
    lingering = stored(*volumes, nodes=(csi_node("node-1", limit=1),), attachments=(attachment("v", "node-1"),))
    assert full(storage=lingering, claims=[claim("new", to="w")])
    there = pod(on="node-1", volumes=mounts("old"))
    now = cluster_state(NODES[:1], [there], claims=[claim("old", to="v"), claim("new", to="w")], storage=lingering)
    new = pod(volumes=mounts("new"))
    assert said(find_feasible(new, now)) == {"node-1": [TOO_MANY]}
    now.remove(there)
    assert said(find_feasible(new, now)) == {}


def test_simulated_pods_bring_the_claims_that_will_be_made_for_them() -> None:
    storage = stored(nodes=(csi_node("node-1", limit=1),))
    new = template(volumes=ephemeral(storageClassName="csi"))
    now = cluster_state(NODES, storage=storage)
    assert find_feasible(new, now).feasible == ("node-1", "node-2")
    now.assign(pod(volumes=ephemeral(storageClassName="csi")), "node-1")
    assert said(find_feasible(new, now)) == {"node-1": [TOO_MANY]}


def test_the_volumes_of_a_nominated_pod_count_if_it_has_its_claims() -> None:
    storage = stored(volume("v", **csi("h")), volume("w", **csi("i")), nodes=(csi_node("node-1", limit=1),))
    claims = [claim("old", to="v"), claim("new", to="w")]
    assert full(storage=storage, claims=claims, pods=[nominated(volumes=mounts("old"))])
    assert not full(storage=storage, claims=claims, pods=[nominated(volumes=ephemeral(storageClassName="csi"))])


def test_doubts_about_the_volumes_of_nominated_pods_count() -> None:
    storage = stored(volume("w", **csi("i")), nodes=(csi_node("node-1", limit=3),), claim_namespaces=frozenset({"default"}))
    waiting = nominated(namespace="elsewhere", volumes=mounts("old"))
    found = feasibility_of(pod(volumes=mounts("new")), NODES, [waiting], claims=[claim("new", to="w")], storage=storage)
    assert (found.feasible, list(found.unknown_nodes)) == (("node-2",), ["node-1"])


# --- what cannot be judged --------------------------------------------------------------------------------------------


def test_what_was_not_read_is_unknown() -> None:
    assert said(feasibility_of(pod(volumes=mounts("data")), NODES)) == {"unreadable"}
    assert said(feasibility_of(pod(volumes=ephemeral()), NODES)) == {"unreadable"}
    no_claims = stored(claim_namespaces=frozenset({"other"}))
    assert said(feasibility_of(pod(volumes=mounts("data")), NODES, storage=no_claims)) == {"unreadable"}


@pytest.mark.parametrize(
    ("resource", "bound", "unbound"),
    [
        ("persistentvolumes", True, True),
        ("csinodes", True, True),
        ("volumeattachments", True, True),
        ("storageclasses", False, True),
        ("csidrivers", False, True),
        ("csistoragecapacities", False, True),
    ],
)
def test_what_may_not_be_read_is_unknown_where_it_matters(resource: str, bound: bool, unbound: bool) -> None:
    claims = [claim("bound", to="v"), claim("unbound", storageClassName="csi")]
    whole = stored(volume("v"), drivers=(csi_driver(),), capacities=(capacity(capacity="9Gi", nodeTopology={}),))
    hidden: dict[str, dict[str, t.Any]] = {
        "persistentvolumes": {"volumes": ()},
        "storageclasses": {"classes": ()},
        "csistoragecapacities": {"capacities": ()},
    }
    storage = whole._replace(unreadable=frozenset({resource}), **hidden.get(resource, {}))
    for name, unknown in (("bound", bound), ("unbound", unbound)):
        found = feasibility_of(pod(volumes=mounts(name)), NODES, claims=claims, storage=storage)
        assert [reason.code for reason in found.unknown] == (["unreadable"] if unknown else [])
        if unknown:
            assert not found.rejected


def test_disks_that_a_driver_has_taken_over_are_unknown_where_that_matters() -> None:
    taken_over = {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd"}
    nodes = (csi_node("node-1", annotations=taken_over, drivers={}), csi_node("node-2", drivers={"pd.csi.storage.gke.io": 1}))
    disk = volume("v", on="node-3", labels={ZONE: "europe-west1-b"}, gcePersistentDisk={"pdName": "d"})
    found = feasibility_of(pod(volumes=mounts("data")), NODES, claims=[claim(to="v")], storage=stored(disk, nodes=nodes))
    assert [(name, [r.code for r in reasons]) for name, reasons in found.unknown_nodes.items()] == [("node-1", ["migrated_volumes"])]
    assert list(found.rejected) == ["node-2"]
    disk = volume("v", on="node-3", gcePersistentDisk={"pdName": "d"})
    found = feasibility_of(pod(volumes=mounts("data")), NODES, claims=[claim(to="v")], storage=stored(disk, nodes=nodes))
    assert said(found) == CONFLICT
    inline = pod(volumes=[{"name": "d", "gcePersistentDisk": {"pdName": "d"}}])
    found = feasibility_of(inline, NODES, storage=stored(nodes=nodes))
    assert (found.feasible, list(found.unknown_nodes)) == (("node-1",), ["node-2"])


def test_pods_whose_claims_may_not_be_read_leave_a_limited_node_unknown() -> None:
    storage = stored(volume("v", **csi("h")), nodes=(csi_node("node-1", limit=2),), claim_namespaces=frozenset({"default"}))
    there = pod(on="node-1", namespace="secret", volumes=mounts("x"))
    found = feasibility_of(pod(volumes=mounts("data")), NODES, [there], claims=[claim(to="v")], storage=storage)
    assert (found.feasible, list(found.unknown_nodes)) == (("node-2",), ["node-1"])


def test_inline_volumes_of_csi_drivers_do_not_matter() -> None:
    inline = pod(volumes=[{"name": "d", "csi": {"driver": DRIVER}}])
    assert said(feasibility_of(inline, NODES, storage=stored(nodes=(csi_node("node-1", limit=0),)))) == {}
