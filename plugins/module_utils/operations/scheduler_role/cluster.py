# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The objects of a cluster that the role extended_scheduler reads before a change, and those that its programs leave."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ...kube.client.config.yaml_text import load_yaml
from ...kube.client.errors import ForbiddenError, KubeError
from ...kube.client.resources import NODES
from ..apply_set.cluster import ObjectsApi
from ..apply_set.discovery import GRANT
from ..apply_set.objects import NAME, Json, Reference, reference_of
from .users import PROBE_LABELS, users_of

SYSTEM = "kube-system"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
LEASES = "coordination.k8s.io/v1"
WORKLOADS = (
    *(("apps/v1", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")),
    ("v1", "ReplicationController"),
    *(("batch/v1", kind) for kind in ("Job", "CronJob")),
)


class RoleClusterError(Exception):
    """Says what is wrong in the cluster, and what to do."""


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
    volumes = deployment["spec"]["template"]["spec"].get("volumes") or () if deployment else ()
    names = [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
    maps = [api.find(Reference("v1", "ConfigMap", namespace, one)) or {} for one in names]
    texts = [data["scheduler.yaml"] for data in (one.get("data") or {} for one in maps) if "scheduler.yaml" in data]
    profiles = [profile for text in texts for profile in (load_yaml(text.encode()) or {}).get("profiles") or ()]
    return list(dict.fromkeys(str(profile.get("schedulerName")) for profile in profiles))


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
    """Return the pods and workloads that would wait for ever for one of the profiles."""
    found, unread = _waiting_pods(api, profiles), []
    for version, kind in WORKLOADS:
        try:
            found += api.list_plain(version, kind, namespace="")
        except KubeError as error:
            unread.append(" ".join(str(error).partition(GRANT)[0].split()).rstrip("."))
    if unread:
        raise RoleClusterError(
            f"It is not known whether a workload names {', '.join(profiles)}, which would be removed: {'; '.join(unread)}. Grant the verb "
            "list, or set extended_scheduler_force: true"
        )
    return users_of(found, profiles)


def check_late_pods(api: ObjectsApi, profiles: Sequence[str]) -> None:
    """Fail if pods wait for one of the profiles, which no scheduler has any more.

    The API server applies a deleted policy for some seconds more.
    """
    late = users_of(_waiting_pods(api, profiles), profiles)
    if late:
        raise RoleClusterError(
            f"{', '.join(profiles)} is removed, and pods that were created meanwhile would wait for it: {', '.join(late)}. Delete them, so "
            "that their controllers create them again"
        )


def remove_state(api: ObjectsApi, namespace: str, names: Mapping[str, t.Any], *, check_mode: bool) -> list[str]:
    """Delete the Leases and the ConfigMap of the programs, and the pods with which profiles were tried. Return their names.

    Such a pod is left if a run was interrupted. The programs have ended, so they make nothing again.
    """
    references = [Reference(LEASES, "Lease", namespace, name) for name in names["leases"]]
    references += [Reference("v1", "ConfigMap", namespace, name) for name in names["config_maps"]]
    labels = ",".join(f"{label}={value}" for label, value in PROBE_LABELS.items())
    found = [item for item in map(api.find, references) if item]
    found += api.list_plain("v1", "Pod", namespace=names["probe_namespace"], labels=labels)
    for item in found if not check_mode else ():
        api.delete(reference_of(item), item["metadata"]["uid"])
    return [reference_of(item).text for item in found]


def _waiting_pods(api: ObjectsApi, profiles: Iterable[str]) -> list[Json]:
    selectors = [f"spec.schedulerName={profile},spec.nodeName=" for profile in profiles]
    return [pod for fields in selectors for pod in api.list_plain("v1", "Pod", namespace="", fields=fields)]
