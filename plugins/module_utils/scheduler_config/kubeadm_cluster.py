# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The ClusterConfiguration of kubeadm with a configuration file for kube-scheduler, and without it again.

``kubeadm upgrade`` and ``kubeadm init phase control-plane scheduler`` write the manifest of the scheduler from it. In v1beta4, extraArgs
is a list of names and values, and in v1beta3 a mapping (``cmd/kubeadm/app/apis/kubeadm``). Errors begin with a verb. The caller adds the
name of the object.
"""

from __future__ import annotations

import copy
import posixpath
import typing as t
from collections.abc import Mapping

from .problem import SchedulerConfigError
from .static_pod import FLAG, VOLUME
from .values import Config

KIND = "ClusterConfiguration"
WITH_LIST, WITH_MAPPING = "kubeadm.k8s.io/v1beta4", "kubeadm.k8s.io/v1beta3"


def cluster_with_configuration(cluster: t.Any, file: str) -> Config:
    """Return the ClusterConfiguration whose scheduler has ``--config=file`` and the volume with its folder.

    An earlier file of the same folder is replaced. Raise SchedulerConfigError for another file, and for an API version that is not known.
    """
    folder = posixpath.dirname(file)
    result = cluster_without_configuration(cluster, folder)
    scheduler = dict(result.get("scheduler") or {})
    arguments = _arguments(result)
    if FLAG in arguments:
        raise SchedulerConfigError(
            f"has {FLAG} {arguments[FLAG]} in scheduler.extraArgs, whose settings would be lost; add the profile to that file with the "
            "module scheduler_profile, or remove the argument"
        )
    if result["apiVersion"] == WITH_LIST:
        scheduler["extraArgs"] = [*(scheduler.get("extraArgs") or []), {"name": FLAG, "value": file}]
    else:
        scheduler["extraArgs"] = {**(scheduler.get("extraArgs") or {}), FLAG: file}
    volume = {"name": VOLUME, "hostPath": folder, "mountPath": folder, "readOnly": True, "pathType": "Directory"}
    scheduler["extraVolumes"] = [*(scheduler.get("extraVolumes") or []), volume]
    result["scheduler"] = scheduler
    return result


def cluster_without_configuration(cluster: t.Any, folder: str) -> Config:
    """Return the ClusterConfiguration without a configuration file of this folder. Other arguments and volumes stay."""
    _check(cluster)
    result = copy.deepcopy(dict(cluster))
    if posixpath.dirname(_arguments(result).get(FLAG, "")) != folder:
        return result
    scheduler = dict(result.get("scheduler") or {})
    arguments = scheduler["extraArgs"]
    if isinstance(arguments, list):
        scheduler["extraArgs"] = [one for one in arguments if one.get("name") != FLAG]
    else:
        scheduler["extraArgs"] = {name: value for name, value in arguments.items() if name != FLAG}
    scheduler["extraVolumes"] = [one for one in scheduler.get("extraVolumes") or [] if one.get("name") != VOLUME]
    result["scheduler"] = {name: value for name, value in scheduler.items() if value or name not in ("extraArgs", "extraVolumes")}
    return result


def _check(cluster: t.Any) -> None:
    kind = cluster.get("kind") if isinstance(cluster, Mapping) else None
    if kind != KIND:
        raise SchedulerConfigError(f"has the kind {kind}, and {KIND} is expected; check that kubeadm has made the cluster")
    if cluster.get("apiVersion") not in (WITH_LIST, WITH_MAPPING):
        raise SchedulerConfigError(
            f"has the apiVersion {cluster.get('apiVersion')}, and {WITH_LIST} and {WITH_MAPPING} are known; convert it with kubeadm config "
            "migrate"
        )


def _arguments(cluster: Mapping[str, t.Any]) -> dict[str, str]:
    """Return the extra arguments of the scheduler by name. Raise SchedulerConfigError if they do not have the form of the API version."""
    found = (cluster.get("scheduler") or {}).get("extraArgs") or ([] if cluster["apiVersion"] == WITH_LIST else {})
    if cluster["apiVersion"] == WITH_LIST and isinstance(found, list):
        return {str(one.get("name")): str(one.get("value")) for one in found}
    if cluster["apiVersion"] == WITH_MAPPING and isinstance(found, Mapping):
        return {str(name): str(value) for name, value in found.items()}
    raise SchedulerConfigError(f"has scheduler.extraArgs that do not have the form of {cluster['apiVersion']}; correct them")
