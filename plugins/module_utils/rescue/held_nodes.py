# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The nodes with a proven hold, and the hold annotations that nothing proves.

A record proves a hold. Without a record, a taint proves it, because a user who may only annotate a node cannot set a taint. The taint must
have the key of holds. Its value must be the hash of the pod in the annotation, or of an existing critical pod.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ..model.api.node import Taint
from ..model.api.pod import Pod
from ..model.snapshot import ClusterSnapshot
from ..state.hold import HASH_LENGTH, NO_SCHEDULE, Hold, HoldRecord, decode_hold, hold_annotation, hold_value, is_genuine, make_hold
from .critical import is_critical
from .options import RescueOptions


class HeldNodes(t.NamedTuple):
    """The held nodes of a cluster.

    ``holds``: the proven holds by node name. ``unproven``: nodes with an annotation that is forged or left over. ``obsolete``: records of
    nodes that do not exist any more.
    """

    holds: dict[str, Hold]
    unproven: list[str]
    obsolete: list[HoldRecord]


def held_nodes(snapshot: ClusterSnapshot, records: Mapping[str, HoldRecord], options: RescueOptions) -> HeldNodes:
    """Return the holds of a cluster. ``records`` are by node name. A record of a node that cannot be decoded proves its hold."""
    unclear = {entry.metadata.name for entry in snapshot.undecodable_of("Node")}
    found = HeldNodes({}, [], [])
    for kept in records.values():
        node = snapshot.nodes.get(kept.node)
        if node is None and (kept.node in unclear or "" in unclear):
            found.holds[kept.node] = kept.hold
        elif node is None or not kept.is_about(node):
            found.obsolete.append(kept)
    critical_pods: t.Optional[dict[str, Pod]] = None
    for name, node in snapshot.nodes.items():
        record = records.get(name)
        if record is not None and record.is_about(node):
            found.holds[name] = record.hold
            continue
        text = hold_annotation(node)
        taint = next((taint for taint in node.spec.taints or () if _may_be_a_hold(taint, options.hold_taint_key)), None)
        if text is None and taint is None:
            continue
        hold = _annotated_hold(text, taint)
        if hold is None and taint is not None:
            critical_pods = _by_hash(snapshot, options) if critical_pods is None else critical_pods
            pod = critical_pods.get(taint.value)
            # The deadline of a hold without an annotation is not known, so it has expired.
            hold = make_hold(pod, key=taint.key, deadline_s=0, writer="") if pod is not None else None
        if hold is not None:
            found.holds[name] = hold
        elif text is not None:
            found.unproven.append(name)
    return found


def _may_be_a_hold(taint: Taint, key: str) -> bool:
    return taint.key == key and taint.effect == NO_SCHEDULE and len(taint.value) == HASH_LENGTH


def _annotated_hold(text: t.Optional[str], taint: t.Optional[Taint]) -> t.Optional[Hold]:
    """Return the hold in the annotation. Return None unless the node has its taint and the taint's value is the hash of its pod."""
    hold = decode_hold(text) if text is not None and taint is not None else None
    return hold if hold is not None and hold.taint == taint and is_genuine(hold) else None


def _by_hash(snapshot: ClusterSnapshot, options: RescueOptions) -> dict[str, Pod]:
    wanted = (pod for pod in snapshot.pods if pod.metadata.namespace in options.namespaces and is_critical(pod, options))
    return {hold_value(pod): pod for pod in wanted}
