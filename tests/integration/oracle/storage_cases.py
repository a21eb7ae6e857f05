# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Random storage of a case: volumes, claims, the CSINodes of nodes, and the volumes of pods. StorageClasses are the same in all cases."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

DRIVER, TRACKED_DRIVER, GCE_DRIVER = "csi.example.com", "tracked.example.com", "pd.csi.storage.gke.io"
GCE_PLUGIN = "kubernetes.io/gce-pd"
ZONE, BETA_ZONE, REGION = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/region"
ZONE_LABELS = {ZONE: ("a", "b"), BETA_ZONE: ("a", "b"), REGION: ("r",)}

CLASSES: dict[str, Json] = {
    "local": {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"},
    "csi": {"provisioner": DRIVER, "volumeBindingMode": "WaitForFirstConsumer"},
    "zoned": {
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [
            {"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}, {"key": "disk", "values": ["ssd"]}]},
            {"matchLabelExpressions": [{"key": "zone", "values": ["c"]}]},
        ],
    },
    "tracked": {"provisioner": TRACKED_DRIVER, "volumeBindingMode": "WaitForFirstConsumer"},
    "in-tree": {"provisioner": GCE_PLUGIN, "volumeBindingMode": "WaitForFirstConsumer"},
    "immediate": {"provisioner": DRIVER, "volumeBindingMode": "Immediate"},
}
DRIVERS = {TRACKED_DRIVER: True, DRIVER: False}

VOLUME_COUNT = 24
CLAIM_COUNT = 14
MODES = ("ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany")
SIZES = ("1Gi", "2Gi", "1500M", "3Gi")


@dataclass(frozen=True)
class Storage:
    """Objects of a case; claims with a finalizer are ones that are being deleted."""

    volumes: list[Json] = field(default_factory=list)
    claims: list[Json] = field(default_factory=list)
    csi_nodes: list[Json] = field(default_factory=list)
    capacities: list[Json] = field(default_factory=list)
    attachments: list[Json] = field(default_factory=list)


def storages(node_names: list[str]) -> st.SearchStrategy[Storage]:
    """The storage of one case."""
    # Single draws of so many values would take longer than everything else.
    return st.integers(0, 2**32).map(lambda number: _storage(Random(number), node_names))


def pod_volumes() -> st.SearchStrategy[list[Json]]:
    """The volumes of a pod; an ephemeral one may come with its claim, its own or another pod's (``ephemeral_claims``)."""
    return st.integers(0, 2**32).map(lambda number: _pod_volumes(Random(number)))


def _one(random: Random, *values: Any) -> Any:
    return random.choice(values)


def _chance(random: Random, percent: int) -> bool:
    return random.randrange(100) < percent


def _storage(random: Random, node_names: list[str]) -> Storage:
    volumes = [_volumes(random, number) for number in range(VOLUME_COUNT)]
    return Storage(
        volumes,
        [_claims(random, number, namespace) for namespace in ("default", "oracle") for number in range(CLAIM_COUNT)],
        [_csi_nodes(random, name) for name in node_names if _chance(random, 80)],
        [_capacities(random) for _number in range(random.randint(1, 4))],
        [_attachments(random, number, node_names) for number in range(8)],
    )


def _volumes(random: Random, number: int) -> Json:
    source: Json = _one(
        random,
        {"hostPath": {"path": "/data"}},
        {"csi": {"driver": DRIVER, "volumeHandle": f"handle-{number % 8}"}},
        {"csi": {"driver": DRIVER, "volumeHandle": f"handle-{number}"}},
        {"csi": {"driver": TRACKED_DRIVER, "volumeHandle": f"handle-{number}"}},
        {"gcePersistentDisk": {"pdName": f"disk-{number}"}},
    )
    spec: Json = {
        "capacity": {"storage": _one(random, *SIZES)},
        "accessModes": _one(random, ["ReadWriteOnce"], list(MODES), ["ReadWriteOncePod"]),
        "storageClassName": _one(random, "local", "local", "csi", "tracked", ""),
        **source,
    }
    if _chance(random, 20):
        spec["volumeMode"] = "Block"
    if "csi" in source and _chance(random, 20):
        spec["volumeAttributesClassName"] = "gold"
    if _chance(random, 60):
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [_terms(random) for _number in range(random.randint(1, 2))]}}
    if _chance(random, 30):
        spec["claimRef"] = {"namespace": _one(random, "default", "oracle"), "name": f"claim-{random.randint(0, CLAIM_COUNT - 1)}"}
        if _chance(random, 20):
            spec["claimRef"]["uid"] = "11111111-1111-1111-1111-111111111111"
    # Of a Google disk with other zones than Google's the scheduler can make nothing: it fails instead of answering.
    zones = {} if "gcePersistentDisk" in source else ZONE_LABELS
    labels = {key: _one(random, *values, "a__b") for key, values in zones.items() if _chance(random, 20)}
    if _chance(random, 50):
        labels["tier"] = _one(random, "fast", "slow")
    phase = _one(random, "Available", "Available", "Available", "Available", "Bound", "Released", "Pending")
    return {"metadata": {"name": f"volume-{number}", "labels": labels}, "spec": spec, "status": {"phase": phase}}


def _terms(random: Random) -> Json:
    """A node affinity term, mostly as those of local volumes are."""
    if _chance(random, 50):
        expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"node-{random.randint(0, 4)}"]}
    else:
        expression = _one(
            random,
            {"key": "zone", "operator": "In", "values": ["a", "b"]},
            {"key": "disk", "operator": "NotIn", "values": ["hdd"]},
            {"key": "zone", "operator": "Exists"},
        )
    term: Json = {"matchExpressions": [expression]}
    if _chance(random, 10):
        term["matchFields"] = [{"key": "metadata.name", "operator": _one(random, "In", "NotIn"), "values": ["node-1"]}]
    return term


def _claims(random: Random, number: int, namespace: str) -> Json:
    spec = _claim_spec(random)
    annotations: Json = {}
    status: Json = {}
    fate = _one(random, *["bound"] * 14, *["unbound"] * 16, "half", "lost", "gone")
    if fate in ("bound", "half", "lost"):
        spec["volumeName"] = f"volume-{random.randint(0, VOLUME_COUNT - 1)}"
    if fate in ("bound", "lost", "gone"):
        annotations["pv.kubernetes.io/bind-completed"] = "yes"
        status["phase"] = "Lost" if fate == "lost" else "Bound"
    if fate == "gone":
        spec["volumeName"] = "no-such-volume"
    if fate == "unbound" and _chance(random, 10):
        annotations["volume.kubernetes.io/selected-node"] = f"node-{random.randint(0, 4)}"
    metadata: Json = {"name": f"claim-{number}", "namespace": namespace, "annotations": annotations}
    if random.randrange(40) == 0:
        metadata["finalizers"] = ["example.com/keep"]
    return {"metadata": metadata, "spec": spec, "status": status}


def _claim_spec(random: Random) -> Json:
    """Return the spec of a random claim."""
    spec: Json = {
        "accessModes": _one(random, ["ReadWriteOnce"], ["ReadWriteOnce"], ["ReadWriteMany", "ReadOnlyMany"], ["ReadWriteOncePod"]),
        "resources": {"requests": {"storage": _one(random, *SIZES)}},
    }
    name = _one(
        random,
        *["local"] * 12,
        *["csi"] * 6,
        *["zoned"] * 6,
        *["tracked"] * 9,
        "in-tree",
        "in-tree",
        "immediate",
        "",
        "no-such-class",
        None,
    )
    if name is not None:
        spec["storageClassName"] = name
    if _chance(random, 10):
        spec["volumeMode"] = "Block"
    if _chance(random, 10):
        spec["volumeAttributesClassName"] = "gold"
    if _chance(random, 20):
        spec["selector"] = {"matchLabels": {"tier": _one(random, "fast", "slow")}}
    return spec


def _csi_nodes(random: Random, name: str) -> Json:
    drivers = []
    for driver, tenths in ((DRIVER, 7), (TRACKED_DRIVER, 4), (GCE_DRIVER, 2)):
        if _chance(random, 10 * tenths):
            drivers.append(
                {"name": driver, "nodeID": name} | _one(random, {}, *({"allocatable": {"count": count}} for count in (1, 2, 2, 3)))
            )
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": f"kubernetes.io/cinder,{GCE_PLUGIN}"} if _chance(random, 20) else {}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"drivers": drivers}}


def _capacities(random: Random) -> Json:
    found: Json = {"metadata": {"generateName": "capacity-"}, "storageClassName": _one(random, "tracked", "tracked", "tracked", "csi")}
    topology = _one(
        random,
        {"matchLabels": {"zone": "a"}},
        {"matchLabels": {"zone": "b", "disk": "ssd"}},
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b", "c"]}]},
        {},
        None,
    )
    if topology is not None:
        found["nodeTopology"] = topology
    if _chance(random, 80):
        found["capacity"] = _one(random, *SIZES)
    if _chance(random, 30):
        found["maximumVolumeSize"] = _one(random, *SIZES)
    return found


def _attachments(random: Random, number: int, node_names: list[str]) -> Json:
    volume = f"volume-{random.randint(0, VOLUME_COUNT - 1)}"
    spec = {
        "attacher": _one(random, DRIVER, TRACKED_DRIVER),
        "nodeName": _one(random, *node_names),
        "source": {"persistentVolumeName": volume},
    }
    return {"metadata": {"name": f"attachment-{number}"}, "spec": spec}


# --- pods -------------------------------------------------------------------------------------------------------------


def _pod_volumes(random: Random) -> list[Json]:
    return [{"name": f"volume-{number}", **_sources(random)} for number in range(_one(random, 1, 1, 2, 3))]


def _sources(random: Random) -> Json:
    if random.randrange(40) == 0:
        return {"persistentVolumeClaim": {"claimName": "no-such-claim"}}
    kind = _one(random, *["claim"] * 12, *["ephemeral"] * 3, "gce", "aws", "rbd", "iscsi", "csi", "azure", "empty")
    if kind == "claim":
        return {"persistentVolumeClaim": {"claimName": f"claim-{random.randint(0, CLAIM_COUNT - 1)}"}}
    if kind == "ephemeral":
        return {
            "ephemeral": {"volumeClaimTemplate": {"metadata": {"labels": {FATE_LABEL: random.choice(_FATES)}}, "spec": _claim_spec(random)}}
        }
    read_only = {"readOnly": True} if _chance(random, 50) else {}
    monitors = [f"m-{random.randint(0, 1)}", f"m-{random.randint(1, 2)}"]
    sources: dict[str, Json] = {
        "gce": {"gcePersistentDisk": {"pdName": _one(random, "disk-1", "disk-2"), **read_only}},
        "aws": {"awsElasticBlockStore": {"volumeID": "vol-0123456789"}},
        "rbd": {"rbd": {"monitors": monitors, "image": "image", **({"pool": "other"} if _chance(random, 30) else {}), **read_only}},
        "iscsi": {"iscsi": {"iqn": "iqn.2001-04.com.example:storage", "targetPortal": "10.0.0.1:3260", "lun": 0, **read_only}},
        "csi": {"csi": {"driver": DRIVER}},
        "azure": {"azureDisk": {"diskName": "disk", "diskURI": "/subscriptions/disk", "kind": "Managed", "cachingMode": "None"}},
        "empty": {"emptyDir": {}},
    }
    return sources[kind]


# Whether the claim of an ephemeral volume is made for the pod, bound, bound to nothing, made for another pod, or missing.
_FATES = ("own", "own", "own", "own", "bound", "bound", "bound", "gone", "other", "missing")
FATE_LABEL = "oracle/fate"


def ephemeral_claims(pod: Json, *, others: bool) -> list[Json]:
    """The claims of the pod's ephemeral volumes, as the controller would have made them or not; with ``others`` some are another pod's.

    With a pod on a node that has another's claim, the scheduler fails instead of answering.
    """
    claims = []
    for volume in pod["spec"].get("volumes", ()):
        template = volume.get("ephemeral", {}).get("volumeClaimTemplate")
        fate = template["metadata"]["labels"][FATE_LABEL] if template else "missing"
        if fate == "missing":
            continue
        uid = "22222222-2222-2222-2222-222222222222" if fate == "other" and others else pod["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": uid, "controller": True}
        metadata: Json = {
            "name": f"{pod['metadata']['name']}-{volume['name']}",
            "namespace": pod["metadata"]["namespace"],
            "ownerReferences": [owner],
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"} if fate in ("bound", "gone") else {},
        }
        named = {"bound": {"volumeName": "volume-3"}, "gone": {"volumeName": "no-such-volume"}}
        claims.append({"metadata": metadata, "spec": template["spec"] | named.get(fate, {}), "status": {}})
    return claims
