# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods that a run is about: those that name and label_selectors select, and the answer for a named pod that needs no rescue."""

from __future__ import annotations

import typing as t
from collections.abc import Container

from ...kube.client.api import KubeApi
from ...kube.client.errors import InvalidError
from ...kube.client.resources import PODS
from ...model.api.pod import Pod
from ...model.option_values import OptionError
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...model.undecodable import undecodable_of
from ...rescue.critical import NOT_CRITICAL, is_critical, not_critical_message
from ...rescue.options import RescueOptions, RescueRequest
from ...rescue.plan import IMPOSSIBLE, WAITING
from .result import RescueError
from .task import POD_GONE, RESCUED, RescueTask


def selected_pods(api: KubeApi, request: RescueRequest) -> t.Callable[[Pod], bool]:
    """Return the predicate for pods that the options name and label_selectors select. The API server evaluates the selector."""
    if not request.name and not request.label_selector:
        return lambda _pod: True
    found: list[Pod] = []
    for namespace in request.options.namespaces:
        try:
            found += api.list_all(PODS, namespace=namespace, label_selector=request.label_selector)
        except InvalidError as error:
            raise OptionError(f"label_selectors: {error}") from error
    found = [pod for pod in found if request.name in ("", pod.metadata.name)]
    if request.name and not found:
        labels = f" with the labels {request.label_selector}" if request.label_selector else ""
        raise RescueError(f"Pod {request.name}{labels} is not in namespace {' or '.join(request.options.namespaces)}: check its name")
    if request.name:
        return lambda pod: pod.metadata.name == request.name  # this includes a pod that a controller creates again with this name
    uids = {pod.metadata.uid for pod in found}
    return lambda pod: pod.metadata.uid in uids


def named_pods_without_task(tasks: Container[str], snapshot: ClusterSnapshot, request: RescueRequest) -> list[RescueTask]:
    """Return tasks for pods that the option name selects and that need no rescue or cannot have one, so that the result has them."""
    if not request.name:
        return []
    found = [pod for pod in snapshot.pods if pod.metadata.name == request.name]
    return [
        _answer(pod, request.options)
        for pod in found
        if pod.metadata.namespace in request.options.namespaces and pod.metadata.uid not in tasks
    ]


def _answer(pod: Pod, options: RescueOptions) -> RescueTask:
    task = RescueTask(pod, 0.0, 0.0)
    undecodable = undecodable_of(pod)
    if pod.spec.node_name:
        task.status, task.reason = RESCUED, Reason("bound", f"it is bound to node {pod.spec.node_name}")
    elif pod.terminating or pod.terminal:
        task.status, task.reason = POD_GONE, Reason("pod_gone", "it is being deleted, or has finished")
    elif undecodable is not None:
        task.status, task.reason = IMPOSSIBLE, undecodable.reason
    elif not is_critical(pod, options):
        task.status, task.reason = IMPOSSIBLE, Reason(NOT_CRITICAL, not_critical_message(pod, options))
    else:
        text = "the scheduler has not reported yet that it finds no node for it"
        task.status, task.reason = WAITING, Reason("not_reported_yet", text)
    return task
