# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods and workloads that name a scheduler, and would wait for ever without it."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable, Iterator, Mapping

Json = Mapping[str, t.Any]

ENDED = ("Succeeded", "Failed")
PROBE_LABELS = {"app.kubernetes.io/name": "kube-scheduling-probe", "app.kubernetes.io/managed-by": "onprem.kube_scheduling"}
"""The labels of a pod with which the role tries a profile. An interrupted run leaves one, which nobody needs."""


def users_of(objects: Iterable[Json], names: Collection[str]) -> list[str]:
    """Return a text for each object that needs one of the schedulers: pods that wait for a node, and workloads whose template names it.

    A workload of another workload is left out, because its owner is in the list or makes no more pods.
    """
    return [f"{text} ({name})" for text, name in _named(objects) if name in names]


def _named(objects: Iterable[Json]) -> Iterator[tuple[str, str]]:
    for item in objects:
        metadata, spec = item.get("metadata") or {}, item.get("spec") or {}
        text = f"{item.get('kind')} {metadata.get('namespace')}/{metadata.get('name')}"
        if item.get("kind") == "Pod":
            if _waits(item) and not PROBE_LABELS.items() <= (metadata.get("labels") or {}).items():
                yield text, str(spec.get("schedulerName"))
        elif not any(owner.get("controller") for owner in metadata.get("ownerReferences") or []) and not _is_complete(item):
            yield text, str(_pod_spec(spec).get("schedulerName"))


def _waits(pod: Json) -> bool:
    is_bound = bool((pod.get("spec") or {}).get("nodeName"))
    is_ending = bool((pod.get("metadata") or {}).get("deletionTimestamp"))
    return not is_bound and not is_ending and (pod.get("status") or {}).get("phase") not in ENDED


def _pod_spec(spec: Json) -> Json:
    template = ((spec.get("jobTemplate") or {}).get("spec") or spec).get("template") or {}
    found: Json = template.get("spec") or {}
    return found


def _is_complete(item: Json) -> bool:
    """Return whether the object is a Job that makes no more pods."""
    conditions = (item.get("status") or {}).get("conditions") or []
    return item.get("kind") == "Job" and any(
        entry.get("type") in ("Complete", "Failed") and entry.get("status") == "True" for entry in conditions
    )
