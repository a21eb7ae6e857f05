# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Attempts that a program has left as under way in the ConfigMap, although their pods are bound or gone."""

from __future__ import annotations

import typing as t
from collections.abc import Container

from ...model.snapshot import ClusterSnapshot
from ...state.rescue_attempts import Attempt, cancel, record_failure, record_success
from .attempts import RescueAttempts


def settle_leftovers(attempts: RescueAttempts, snapshot: ClusterSnapshot, cases: Container[str], *, now_s: float) -> None:
    """Write the result of each attempt that is under way for a pod that needs no rescue any more and is no case here.

    ``cases``: the UIDs of the pods that this program works on. An attempt for a pod that is still pending stays under way: its rescue goes
    on. A pod that is gone is judged as by the program that has ended: the attempt has failed if pods were evicted for it. Raises KubeError.
    """
    left = {key: [uid for uid in entry.under_way if uid not in cases] for key, entry in attempts.read().items()}
    if not any(left.values()):
        return
    bound = {pod.metadata.uid: f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in snapshot.pods if pod.spec.node_name}
    pending = {pod.metadata.uid for pod in snapshot.pods if not pod.spec.node_name}
    for key, uids in left.items():
        ended = [uid for uid in uids if uid not in pending]

        def change(entry: t.Optional[Attempt], ended: list[str] = ended) -> t.Optional[Attempt]:
            for uid in ended:
                if entry is None or uid not in entry.under_way:
                    continue  # another program was faster
                if uid in bound:
                    entry = record_success(entry, now_s=now_s, pod_uid=uid, name=bound[uid], pending=pending)
                elif entry.victims.get(uid):
                    entry = record_failure(entry, now_s=now_s, pod_uid=uid, name=entry.name)
                else:
                    entry = cancel(entry, now_s=now_s, pod_uid=uid)
            return entry

        if ended:
            attempts.update(key, change)
