# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The static pod of kube-scheduler with a configuration file, and without it again.

Errors begin with a verb. The caller adds the name of the manifest.
"""

from __future__ import annotations

import copy
import posixpath
import typing as t
from collections.abc import Mapping

from .manifest_flags import each_flag, flags_of
from .problem import SchedulerConfigError
from .values import Config

PROGRAM = "kube-scheduler"
VOLUME = "extended-scheduler"
"""The name of the volume with the folder of the file, in the pod and in the configuration of kubeadm."""
FLAG = "config"


def scheduler_container(pod: t.Any) -> Config:
    """Return the container of a pod that runs kube-scheduler. Raise SchedulerConfigError if there is none."""
    spec = pod.get("spec") if isinstance(pod, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    for container in containers if isinstance(containers, list) else ():
        words = words_of(container) if isinstance(container, dict) else []
        if words and PROGRAM in (posixpath.basename(words[0]), container.get("name")):
            if posixpath.basename(words[0]) != PROGRAM and not words[0].startswith("-"):
                raise SchedulerConfigError(
                    f"starts {PROGRAM} by {words[0]}, which may ignore new flags; write the command of {PROGRAM} itself"
                )
            found: Config = container
            return found
    raise SchedulerConfigError(f"has no container with the command {PROGRAM}; give the path of the scheduler's manifest")


def words_of(container: Mapping[str, t.Any]) -> list[str]:
    """Return the command line of a container."""
    return [str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ()))]


def pod_with_configuration(pod: Mapping[str, t.Any], file: str) -> Config:
    """Return the pod with ``--config=file`` and the folder of the file, in the order in which kubeadm 1.36 writes flags and volumes.

    The folder is mounted and not the file: a mounted file keeps its old content after it was replaced. Raise SchedulerConfigError if the
    pod has another file, whose settings would be lost.
    """
    result = copy.deepcopy(dict(pod))
    container, folder = scheduler_container(result), posixpath.dirname(file)
    present = flags_of(words_of(container)).get(FLAG)
    if present is not None:
        raise SchedulerConfigError(
            f"has --{FLAG}={present}, whose settings would be lost; add the profile to that file with the module scheduler_profile, or "
            "remove the flag"
        )
    words = container["args" if container.get("args") else "command"]
    words.append(f"--{FLAG}={file}")
    _insert(container, "volumeMounts", {"mountPath": folder, "name": VOLUME, "readOnly": True})
    _insert(result["spec"], "volumes", {"hostPath": {"path": folder, "type": "Directory"}, "name": VOLUME})
    return result


def pod_without_configuration(pod: Mapping[str, t.Any], folder: str) -> Config:
    """Return the pod without ``--config`` if the file is in this folder, and without the volume.

    Another pod is unchanged. Raise SchedulerConfigError if it has the volume with another folder.
    """
    result = copy.deepcopy(dict(pod))
    container = scheduler_container(result)
    if configuration_in(container, folder) is None:
        _refuse_other_folder(result, folder)
        return result
    of_folder = [flag for flag in each_flag(words_of(container)) if flag.name == FLAG and posixpath.dirname(flag.value) == folder]
    removed = {place for flag in of_folder for place in flag.places}
    first = 0
    for name in ("command", "args"):
        words = container.get(name)
        if words:
            container[name] = [word for place, word in enumerate(words, first) if place not in removed]
            first += len(words)
    _remove(container, "volumeMounts")
    _remove(result["spec"], "volumes")
    return result


def configuration_in(container: Mapping[str, t.Any], folder: str) -> t.Optional[str]:
    """Return the configuration file of the container if it is in this folder, otherwise None."""
    file = flags_of(words_of(container)).get(FLAG, "")
    return file if posixpath.dirname(file) == folder else None


def _refuse_other_folder(pod: Mapping[str, t.Any], folder: str) -> None:
    """Raise SchedulerConfigError if the pod has the volume of another folder, because its configuration would stay in use."""
    for volume in pod["spec"].get("volumes") or ():
        path = (volume.get("hostPath") or {}).get("path") if isinstance(volume, Mapping) and volume.get("name") == VOLUME else None
        if path and path != folder:
            raise SchedulerConfigError(
                f"uses the folder {path}, and not {folder}; set extended_scheduler_folder to {posixpath.dirname(path)}"
            )


def _insert(owner: Config, key: str, entry: Config) -> None:
    entries = [one for one in owner.get(key) or [] if one.get("name") != VOLUME]
    place = next((place for place, one in enumerate(entries) if str(one.get("name")) > VOLUME), len(entries))
    owner[key] = [*entries[:place], entry, *entries[place:]]


def _remove(owner: Config, key: str) -> None:
    owner[key] = [one for one in owner.get(key) or [] if one.get("name") != VOLUME]
    if not owner[key]:
        del owner[key]
