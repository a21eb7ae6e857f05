# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The objects of a cluster that has several users one after the other, to find what one of them leaves."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from typing import Any

from lab.api import ApiClient

Json = dict[str, Any]

IGNORED_KINDS = {"componentstatuses", "controllerrevisions", "endpoints", "endpointslices", "events", "ipaddresses"}
"""Kinds that only controllers create."""
IGNORED = re.compile(
    r".*/(configmaps/kube-root-ca\.crt|serviceaccounts/default|leases/kube-scheduler|leases/apiserver-[^/]*|namespaces/kube-node-lease/.*)"
    # Namespaces of single tests, which stay without workloads: to delete each one would cost as much as many of the tests.
    r"|/api/v1/namespaces/test-\d+"
)
"""Objects that the control plane may create later than the inventory, and objects that have no effect on others."""
REMOVED = re.compile(
    r".*/(roles|rolebindings|clusterroles|clusterrolebindings|serviceaccounts)/.*|.*/kube-system/(configmaps|leases)/kube-scheduling-.*"
)
"""Users with their rights, and the state that programs of this project store."""
WORKLOADS = {"pods", "daemonsets", "deployments", "replicasets", "statefulsets", "cronjobs", "jobs"}
POLL_S = 0.5


class Inventory:
    """The objects of a cluster by their path, and what scheduling depends on of its nodes and namespaces.

    Of the objects in a new namespace, only workloads and pods are found, and only pods if the namespace is being deleted.
    """

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._paths = list(_paths(api))
        self._namespaces: set[str] = {item["metadata"]["name"] for item in api.get("/api/v1/namespaces")["items"]}
        self._known = self._read()

    def restore(self, *, timeout_s: float) -> list[str]:
        """Delete users and stored state that are new. Return what else is new, missing or changed, which is known from then on.

        Objects that are being deleted have so many seconds to end.
        """
        deadline_s = time.monotonic() + timeout_s
        found = self._read()
        for path in [path for path in found if path not in self._known and REMOVED.fullmatch(path)]:
            self._api.request("DELETE", path)
            del found[path]
        while found != self._known and time.monotonic() < deadline_s:
            time.sleep(POLL_S)
            found = self._read()
        before, self._known = self._known, found
        return [
            *(f"new: {path}" for path in sorted(found.keys() - before.keys())),
            *(f"missing: {path}" for path in sorted(before.keys() - found.keys())),
            *(f"changed: {path}: {state}, before: {before[path]}" for path, state in found.items() if before.get(path, state) != state),
        ]

    def _read(self) -> dict[str, str]:
        """Return a text for each object, which is empty if no test counts on its fields."""
        found, deleted = {}, set()
        for base, kind in self._paths:
            for item in self._api.get(f"{base}/{kind}")["items"]:
                name, namespace = item["metadata"]["name"], item["metadata"].get("namespace")
                path = f"{base}/namespaces/{namespace}/{kind}/{name}" if namespace else f"{base}/{kind}/{name}"
                if kind == "namespaces" and "deletionTimestamp" in item["metadata"]:
                    deleted.add(name)
                elif not IGNORED.fullmatch(path) and (
                    not namespace or namespace in self._namespaces or kind in ({"pods"} if namespace in deleted else WORKLOADS)
                ):
                    found[path] = _state(kind, item)
        return found


def _paths(api: ApiClient) -> Iterator[tuple[str, str]]:
    """The kinds, each with the path of the version that the API server prefers. Namespaces come first."""
    yield "/api/v1", "namespaces"
    groups = (group["preferredVersion"]["groupVersion"] for group in api.get("/apis")["groups"])
    for base in ("/api/v1", *(f"/apis/{version}" for version in groups)):
        for kind in api.get(base)["resources"]:
            if "list" in kind["verbs"] and kind["name"] not in ("namespaces", *IGNORED_KINDS):
                yield base, kind["name"]


def _state(kind: str, item: Json) -> str:
    metadata, spec = item["metadata"], item.get("spec", {})
    state = {"labels": metadata.get("labels"), "annotations": metadata.get("annotations")}
    if kind == "nodes":
        ready = [one["status"] for one in item["status"].get("conditions", ()) if one["type"] == "Ready"]
        state |= {"taints": spec.get("taints"), "unschedulable": spec.get("unschedulable"), "ready": ready}
        state["allocatable"] = item["status"].get("allocatable")
    return json.dumps({key: value for key, value in state.items() if value}, sort_keys=True) if kind in ("nodes", "namespaces") else ""
