# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The objects of a cluster that the role extended_scheduler reads before a change, and those that its programs leave."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ...kube.client.config.yaml_text import load_yaml
from ...kube.client.errors import ForbiddenError, KubeError
from ...kube.client.resources import NODES
from ..apply_set.cluster import GRANT, ObjectsApi, ObjectsError, delete_found
from ..apply_set.objects import COLLECTION, MANAGED_BY, NAME, Json, Reference, mounted_config_maps, reference_of

SYSTEM = "kube-system"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
LEASES = "coordination.k8s.io/v1"
WORKLOADS = (
    *(("apps/v1", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")),
    ("v1", "ReplicationController"),
    *(("batch/v1", kind) for kind in ("Job", "CronJob")),
)
PROBE = "kube-scheduling-probe"
"""The name in the labels of a pod with which the role tries a profile. An interrupted run leaves one, which nobody needs."""


def read_cluster(api: ObjectsApi, given: Mapping[str, t.Any]) -> Json:
    """Return what a change depends on. ``given`` are the options of the module scheduler_cluster."""
    shape, namespace = given["shape"], given["namespace"]
    is_second = shape == "second_scheduler"
    objects = [] if is_second else host_objects(api, shape, given["name"])
    return {
        **(nodes_of(api) if given["nodes"] else {}),
        "missing_files": missing_files(api, namespace, given["files"]),
        "marked": marked_by(api, given["marks"]),
        "profiles": installed_profiles(api, namespace, given["name"]) if is_second else [],
        "objects": objects,
        "pod_names": running_pods(api, namespace, given["pods"], objects, shape) if given["pods"] else [],
    }


def nodes_of(api: ObjectsApi) -> dict[str, list[str]]:
    """Return the names of the nodes, and the names of their labels."""
    found = api.list_all(NODES, each=lambda node: node.metadata)
    return {"node_names": [one.name for one in found], "node_labels": sorted({label for one in found for label in one.labels or ()})}


def missing_files(api: ObjectsApi, namespace: str, files: Iterable[Mapping[str, str]]) -> list[Json]:
    """Return the files whose Secret or ConfigMap, or whose key, does not exist. One that the user may not read is left out."""
    missing = []
    for file in files:
        try:
            found = api.find(Reference("v1", file["kind"], namespace, file["name"]))
        except ForbiddenError:  # the kubelet finds out whether it exists
            continue
        if file["key"] not in {**((found or {}).get("data") or {}), **((found or {}).get("binaryData") or {})}:
            missing.append({**file, "exists": found is not None})
    return missing


def marked_by(api: ObjectsApi, marks: Iterable[Mapping[str, str]]) -> list[Mapping[str, str]]:
    """Return the marks whose object exists."""
    return [one for one in marks if api.find(Reference(one["api_version"], one["kind"], one.get("namespace", ""), one["name"]))]


def installed_profiles(api: ObjectsApi, namespace: str, name: str) -> list[str]:
    """Return the profiles in the ConfigMaps that the Deployment of the second scheduler mounts."""
    deployment = api.find(Reference("apps/v1", "Deployment", namespace, name))
    names = mounted_config_maps([deployment] if deployment else [])
    data = [(api.find(Reference("v1", "ConfigMap", namespace, one)) or {}).get("data") or {} for one in names]
    configurations = [load_yaml(one["scheduler.yaml"].encode()) or {} for one in data if "scheduler.yaml" in one]
    return list(dict.fromkeys(str(profile.get("schedulerName")) for one in configurations for profile in one.get("profiles") or ()))


def host_objects(api: ObjectsApi, shape: str, name: str) -> list[Json]:
    """Return the configuration of kubeadm and the Lease of the scheduler, with kubeadm also its pods and the control planes.

    A kubelet can make a mirror pod with any label on its own Node, and cannot give the Node the label of a control plane.
    """
    lease = Reference(LEASES, "Lease", SYSTEM, "kube-scheduler" if shape == "kubeadm" else name)
    found = [one for one in (api.find(Reference("v1", "ConfigMap", SYSTEM, "kubeadm-config")), api.find(lease)) if one]
    if shape == "kubeadm":
        found += api.list_plain("v1", "Pod", namespace=SYSTEM, labels="component=kube-scheduler")
        found += api.list_plain("v1", "Node", namespace="", labels=CONTROL_PLANE)
    return [{**one, "metadata": {**one["metadata"], "managedFields": None}} for one in found]


def running_pods(api: ObjectsApi, namespace: str, name: str, objects: Iterable[Json], shape: str) -> list[str]:
    """Return the running pods with this name in their label: with the shape kubeadm those on the control planes, else one of them.

    A kubelet can make such a pod on its own Node, too.
    """
    pods = api.list_plain("v1", "Pod", namespace=namespace, labels=f"{NAME}={name}", fields="status.phase=Running")
    nodes = {one["metadata"]["name"] for one in objects if one["kind"] == "Node"}
    chosen = [pod for pod in pods if pod["spec"].get("nodeName") in nodes] if shape == "kubeadm" else pods[:1]
    return [pod["metadata"]["name"] for pod in chosen]


def users_in(api: ObjectsApi, profiles: Sequence[str]) -> list[str]:
    """Return a text for each pod and workload that would wait for ever for one of the profiles."""
    found, unread = _waiting_pods(api, profiles), []
    for version, kind in WORKLOADS:
        try:
            named = [(reference_of(item).text, scheduler_of(item)) for item in api.list_plain(version, kind, namespace="")]
            found += [f"{text} ({name})" for text, name in named if name in profiles]
        except KubeError as error:
            unread.append(" ".join(str(error).partition(GRANT)[0].split()).rstrip("."))
    if unread:
        raise ObjectsError(
            f"It is not known whether a workload names {', '.join(profiles)}, which would be removed: {'; '.join(unread)}. Grant the verb "
            "list, or set extended_scheduler_force: true"
        )
    return found


def scheduler_of(workload: Json) -> str:
    """Return the scheduler of the pods that a workload makes. It is empty if the workload makes no more pods.

    It is also empty for a workload of another workload, because its owner is in the list or makes no more pods.
    """
    conditions = (workload.get("status") or {}).get("conditions") or ()
    has_ended = any(one["type"] in ("Complete", "Failed") and one["status"] == "True" for one in conditions)
    if has_ended or any(owner.get("controller") for owner in workload["metadata"].get("ownerReferences") or ()):
        return ""
    template = (workload["spec"].get("jobTemplate") or workload)["spec"].get("template") or {}
    return str((template.get("spec") or {}).get("schedulerName"))


def check_late_pods(api: ObjectsApi, profiles: Sequence[str]) -> None:
    """Fail if pods wait for one of the profiles, which no scheduler has any more.

    The API server applies a deleted policy for some seconds more.
    """
    late = _waiting_pods(api, profiles)
    if late:
        raise ObjectsError(
            f"{', '.join(profiles)} is removed, and pods that were created meanwhile would wait for it: {', '.join(late)}. Delete them, so "
            "that their controllers create them again"
        )


def remove_state(api: ObjectsApi, namespace: str, names: Mapping[str, t.Any], *, check_mode: bool) -> list[str]:
    """Delete the Leases and the ConfigMap of the programs, and the pods with which profiles were tried. Return their names.

    Such a pod is left if a run was interrupted. The programs have ended, so they make nothing again.
    """
    references = [Reference(LEASES, "Lease", namespace, name) for name in names["leases"]]
    references += [Reference("v1", "ConfigMap", namespace, name) for name in names["config_maps"]]
    labels = f"{NAME}={PROBE},{MANAGED_BY}={COLLECTION}"
    references += map(reference_of, api.list_plain("v1", "Pod", namespace=names["probe_namespace"], labels=labels))
    return [reference_of(item).text for item in delete_found(api, references, dry_run=check_mode)]


def _waiting_pods(api: ObjectsApi, profiles: Iterable[str]) -> list[str]:
    found = []
    for profile in profiles:
        fields = f"spec.schedulerName={profile},spec.nodeName=,status.phase=Pending"
        pods = api.list_plain("v1", "Pod", namespace="", fields=fields, labels=f"{NAME}!={PROBE}")
        found += [f"{reference_of(pod).text} ({profile})" for pod in pods if not pod["metadata"].get("deletionTimestamp")]
    return found
