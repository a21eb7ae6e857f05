# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A Job of a CronJob, which is started by hand."""

from __future__ import annotations

import secrets

from ...kube.client.errors import KubeError
from ...kube.client.resources import Resource
from .availability import condition_texts
from .cluster import ObjectsApi
from .discovery import AnyObject
from .objects import Json
from .polling import polled

BATCH = "batch/v1"
JOBS = Resource(f"/apis/{BATCH}", "jobs", "Job", AnyObject)


def job_of(cronjob: Json) -> Json:
    """Return a new Job of a CronJob."""
    metadata, template = cronjob["metadata"], cronjob["spec"]["jobTemplate"]
    given = template.get("metadata") or {}
    own = {
        "name": f"{metadata['name'][:49]}-manual-{secrets.token_hex(3)}",
        "namespace": metadata["namespace"],
        "labels": given.get("labels") or {},
        "annotations": {**(given.get("annotations") or {}), "cronjob.kubernetes.io/instantiate": "manual"},
        "ownerReferences": [{"apiVersion": BATCH, "kind": "CronJob", "name": metadata["name"], "uid": metadata["uid"], "controller": True}],
    }
    return {"apiVersion": BATCH, "kind": "Job", "metadata": own, "spec": template["spec"]}


def wait_for_end(api: ObjectsApi, job: Json, timeout_s: float) -> str:
    """Return the reason why the Job has not completed. It is empty if it has. An API server that is restarted is asked again."""
    namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]

    def look() -> tuple[set[str], str]:
        try:
            live = api.get_plain(JOBS, namespace, name)
        except KubeError as error:
            return set(), str(error)
        types = {one["type"] for one in (live.get("status") or {}).get("conditions") or () if one["status"] == "True"}
        return types & {"Complete", "Failed"}, condition_texts(live) or "it has no conditions"

    ends, texts = polled(look, lambda found: found[0], timeout_s)
    if "Complete" in ends:
        return ""
    return (
        f"Job {namespace}/{name} {'has failed' if ends else f'has not ended after {timeout_s} s'} "
        f"({texts}). Its log has the reason: kubectl --namespace {namespace} logs job/{name}. Kubernetes deletes the pods of a Job that "
        f"reaches its deadline, with their logs. Their events stay: kubectl --namespace {namespace} get events"
    )
