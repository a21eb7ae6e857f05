# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One snapshot of the cluster, read in pages, with what may not be read reported instead of ending the run."""

from __future__ import annotations

import gc
import typing as t
from collections.abc import Sequence

from ..model.objects import Workload
from ..model.sharing import Sharer
from ..model.snapshot import ClusterSnapshot, Skipped
from . import resources
from .api import KubeApi
from .errors import ForbiddenError, NotFoundError
from .resources import Resource


def read_snapshot(
    api: KubeApi,
    *,
    namespaces: t.Optional[Sequence[str]] = None,
    kinds: Sequence[str] = ("Deployment", "StatefulSet"),
    label_selector: str = "",
    pods_everywhere: bool = True,
) -> ClusterSnapshot:
    """Read nodes, pods, workloads and what bounds their restart.

    ``namespaces`` and ``label_selector`` bound which workloads are read (None and empty: all). Pods are read from everywhere,
    because they take up room on the nodes, unless ``pods_everywhere`` is false. What is forbidden is named in
    ``snapshot.skipped``; forbidden nodes end the read, since nothing can be judged without them.

    Raises ForbiddenError (nodes), UnauthorizedError, UnreachableError, ApiError.
    """
    # Tens of thousands of new structs would otherwise trigger the collector again and again; they hold no cycles.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return _Reader(api, namespaces, label_selector, pods_everywhere=pods_everywhere).snapshot(kinds)
    finally:
        if collecting:
            gc.enable()


class _Reader:
    def __init__(self, api: KubeApi, namespaces: t.Optional[Sequence[str]], label_selector: str, *, pods_everywhere: bool) -> None:
        self._api = api
        self._pods_everywhere = pods_everywhere
        self._label_selector = label_selector
        self._wanted = None if namespaces is None else sorted(set(namespaces))
        self._readable: list[str] = []
        self._skipped: list[Skipped] = []
        self._sharer = Sharer()

    def snapshot(self, kinds: Sequence[str]) -> ClusterSnapshot:
        nodes = self._api.list_all(resources.NODES, each=self._sharer.node)
        namespaces = self._namespaces()
        pods, complete = self._pods()
        return ClusterSnapshot(
            nodes=nodes,
            namespaces=namespaces,
            pods=pods,
            complete_pods=complete,
            deployments=self._workloads("Deployment") if "Deployment" in kinds else (),
            replica_sets=self._in_namespaces(resources.REPLICA_SETS) if "Deployment" in kinds else (),
            stateful_sets=self._workloads("StatefulSet") if "StatefulSet" in kinds else (),
            budgets=self._in_namespaces(resources.BUDGETS),
            quotas=self._in_namespaces(resources.QUOTAS),
            autoscalers=self._in_namespaces(resources.AUTOSCALERS),
            claims=self._in_namespaces(resources.CLAIMS),
            limit_ranges=self._in_namespaces(resources.LIMIT_RANGES),
            skipped=self._skipped,
            read_at_s=self._api.now_s(),
        )

    def _namespaces(self) -> list[t.Any]:
        try:
            found = self._api.list_all(resources.NAMESPACES)
        except ForbiddenError:
            if self._wanted is None:
                raise
            return self._named_namespaces()
        self._readable = [namespace.metadata.name for namespace in found]
        return found

    def _named_namespaces(self) -> list[t.Any]:
        found = []
        for name in self._wanted or ():
            try:
                found.append(self._api.get(resources.NAMESPACES, "", name))
                self._readable.append(name)
            except NotFoundError:
                continue
            except ForbiddenError as error:
                self._skip("namespaces", name, error)
        return found

    def _pods(self) -> tuple[list[t.Any], bool]:
        if self._pods_everywhere:
            try:
                return self._api.list_all(resources.PODS, each=self._sharer.pod), True
            except ForbiddenError as error:
                self._skip("pods", "", error)
        pods: list[t.Any] = []
        for namespace in self._scope():
            pods.extend(self._sharer.pod(pod) for pod in self._one_namespace(resources.PODS, namespace))
        return pods, False

    def _workloads(self, kind: str) -> list[Workload]:
        return self._in_namespaces(resources.WORKLOADS[kind], self._label_selector)

    def _in_namespaces(self, resource: Resource, label_selector: str = "") -> list[t.Any]:
        """The collection in one list, or namespace by namespace where only some of them are wanted or allowed."""
        if self._wanted is None or len(self._wanted) > 3:
            try:
                return self._api.list_all(resource, label_selector=label_selector)
            except ForbiddenError:
                pass  # perhaps some of the namespaces can be read one by one
        return [item for namespace in self._scope() for item in self._one_namespace(resource, namespace, label_selector)]

    def _scope(self) -> list[str]:
        if self._wanted is None:
            return self._readable
        return [name for name in self._wanted if name in self._readable]

    def _one_namespace(self, resource: Resource, namespace: str, label_selector: str = "") -> list[t.Any]:
        try:
            return self._api.list_all(resource, namespace=namespace, label_selector=label_selector)
        except ForbiddenError as error:
            self._skip(resource.plural, namespace, error)
            return []

    def _skip(self, resource: str, namespace: str, error: Exception) -> None:
        self._skipped.append(Skipped(resource, namespace, str(error)))
