# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Victims as they are recorded in the cluster, so that another program knows what has been evicted for a pod."""

from __future__ import annotations

from ...model.api.meta import ObjectMeta
from ...model.api.pod import Pod, PodSpec
from ...model.reason import Reason
from ...rescue.plan import Victim
from ...state.rescue_attempts import VictimRecord


def record_of(victim: Victim) -> VictimRecord:
    """The record of a victim."""
    metadata, reason = victim.pod.metadata, victim.reason
    return VictimRecord(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        node=victim.pod.spec.node_name,
        priority=victim.priority,
        grace_period=victim.grace_period,
        code=reason.code,
        text=reason.text,
    )


def victim_of(record: VictimRecord) -> Victim:
    """The victim that a record stands for, with the parts of its pod that results and Events show."""
    metadata = ObjectMeta(name=record.name, namespace=record.namespace, uid=record.uid)
    pod = Pod(metadata=metadata, spec=PodSpec(node_name=record.node, priority=record.priority))
    return Victim(pod, record.priority, Reason(record.code, record.text), record.grace_period)
