# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The held nodes of a cluster, each with the pod of its hold."""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from ..model.api.node import Node
from ..model.api.pod import Pod
from ..model.snapshot import ClusterSnapshot
from ..state.hold import Hold, hash_of, hold_on


class HeldNode(t.NamedTuple):
    """A node with its hold. ``pod``: the pod that it is held for; None if that pod does not exist any more."""

    node: Node
    hold: Hold
    pod: Pod | None

    @property
    def uid(self) -> str:
        """The uid of the pod; empty if it does not exist any more."""
        return self.pod.metadata.uid if self.pod is not None else ""

    @property
    def pod_name(self) -> str:
        """Namespace and name of the pod; empty if it does not exist any more."""
        return self.pod.metadata.full_name if self.pod is not None else ""

    @property
    def pod_text(self) -> str:
        """The pod in a sentence."""
        return f"pod {self.pod_name}" if self.pod is not None else "a pod that is gone"


def held_nodes(snapshot: ClusterSnapshot, likely: Iterable[Pod] = (), *, without: Mapping[str, Hold]) -> dict[str, HeldNode]:
    """Return the held nodes by name. ``likely``: pods that holds may be for. ``without``: holds that do not count, by node name."""
    holds = {name: hold for name, node in snapshot.nodes.items() if node.spec.taints and (hold := hold_on(node)) is not None}
    holds = {name: hold for name, hold in holds.items() if without.get(name) != hold}
    # The pods of most holds are among the first ones. The hash of 20,000 pods takes 30 ms.
    pods = _by_hash(chain(likely, snapshot.pending_pods, snapshot.pods), {hold.pod_hash for hold in holds.values()})
    return {name: HeldNode(snapshot.nodes[name], hold, pods.get(hold.pod_hash)) for name, hold in holds.items()}


def _by_hash(pods: Iterable[Pod], wanted: Collection[str]) -> dict[str, Pod]:
    """Return the pods with these hashes."""
    found: dict[str, Pod] = {}
    for pod in pods if wanted else ():
        pod_hash = hash_of(pod)
        if pod_hash in wanted:
            found[pod_hash] = pod
            if len(found) == len(wanted):
                break
    return found
