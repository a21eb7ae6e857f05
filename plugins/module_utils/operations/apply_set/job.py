# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A Job of a CronJob, which is started by hand."""

from __future__ import annotations

import secrets

from ...kube.client.resources import JOBS
from .apply_set import condition_texts
from .cluster import ObjectsApi, ObjectsError
from .objects import Json, Reference
from .polling import polled

BATCH = "batch/v1"


def start_job(api: ObjectsApi, namespace: str, name: str, *, dry_run: bool) -> str:
    """Create a Job from the template of a CronJob, and return its name. Raises ObjectsError if there is no CronJob."""
    cronjob = api.find(Reference(BATCH, "CronJob", namespace, name))
    if cronjob is None:
        raise ObjectsError(f"There is no CronJob {namespace}/{name}: install it first. The form Deployment runs by itself.")
    template, job = cronjob["spec"]["jobTemplate"], f"{name[:49]}-manual-{secrets.token_hex(3)}"
    given = template.get("metadata") or {}
    metadata = {
        "name": job,
        "namespace": namespace,
        "labels": given.get("labels") or {},
        "annotations": {**(given.get("annotations") or {}), "cronjob.kubernetes.io/instantiate": "manual"},
        "ownerReferences": [
            {"apiVersion": BATCH, "kind": "CronJob", "name": name, "uid": cronjob["metadata"]["uid"], "controller": True},
        ],
    }
    body = {"apiVersion": BATCH, "kind": "Job", "metadata": metadata, "spec": template["spec"]}
    api.create_once(JOBS, namespace, body, dry_run=dry_run)
    return job


def wait_for_end(api: ObjectsApi, namespace: str, name: str, timeout_s: float) -> None:
    """Wait until the Job has completed. Raises ObjectsError with the reason why it has not."""

    def look() -> tuple[set[str], str]:
        live: Json = api.get_plain(JOBS, namespace, name)
        types = {one["type"] for one in (live.get("status") or {}).get("conditions") or () if one["status"] == "True"}
        return types & {"Complete", "Failed"}, condition_texts(live) or "it has no conditions"

    ends, texts = polled(look, lambda found: found[0], timeout_s, of_error=lambda error: (set(), str(error)))
    if "Complete" not in ends:
        raise ObjectsError(
            f"Job {namespace}/{name} {'has failed' if ends else f'has not ended after {timeout_s} s'} ({texts}). Its log has the reason: "
            f"kubectl --namespace {namespace} logs job/{name}. Kubernetes deletes the pods of a Job that reaches its deadline, with their "
            f"logs. Their events stay: kubectl --namespace {namespace} get events"
        )
