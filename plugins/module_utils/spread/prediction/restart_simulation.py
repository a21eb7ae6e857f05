# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Simulation of a restart on a fork of the cluster state: the order of old pods, and the nodes of the new ones.

``RestartSimulation`` has the best result that a restart can reach: each new pod gets the feasible node with the lowest load. A subclass has
the draws of the scheduler and of the controllers (``drawn_restart.py``).
"""

from __future__ import annotations

import random
import typing as t
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from dataclasses import replace as replace_fields

from ...model.api.pod import Pod
from ...model.api.workload import Workload
from ...model.codec import replace
from ...model.reason import Reasons
from ...model.snapshot import ClusterSnapshot, ordinal
from ...scheduler.cluster_state import ClusterState
from ...scheduler.feasibility import Feasibility
from ..rollout import partition, rollout_bounds, update_strategy_type
from ..topology.topology import Topology
from .draws import terminating_copy
from .least_loaded_node import LeastLoadedNode, ReplicaCounts
from .next_pods import NextPods
from .old_pods import OldPods, ending_pods
from .preemption import may_preempt


@dataclass(frozen=True)
class SimulatedRestart:
    """The result of a simulated restart.

    ``nodes`` has the node of every replica afterwards. ``stuck`` has the filter results by node if the restart would not end, or None.
    ``first`` has the filter results for the first new pod. ``cluster_state`` has all pods afterwards. ``decided``: the simulation ended
    early because the caller's question was decided; ``nodes`` then has the first replicas only. ``preempts``: it ended at a new pod that
    finds no node, and for which the scheduler may preempt other pods. ``certainly_preempts``: it does so.
    """

    nodes: tuple[str, ...]
    stuck: t.Optional[Feasibility]
    first: Feasibility
    cluster_state: ClusterState
    decided: bool = False
    preempts: bool = False
    certainly_preempts: bool = False


class _NoCapacity(Exception):
    """No node is feasible for a new pod."""

    def __init__(self, feasibility: Feasibility) -> None:
        super().__init__()
        self.feasibility = feasibility


class _PreemptionError(Exception):
    """No node is feasible for a new pod, and the scheduler may preempt other pods for it. ``certainly``: it does so."""

    def __init__(self, *, certainly: bool) -> None:
        super().__init__()
        self.certainly = certainly


class RestartSimulation:
    """A simulated restart of one workload, with the best result that it can reach.

    It replaces the replicas that exist, even if the spec requires more. If a rollout is in progress, it is continued to its end.
    ``candidates`` are the nodes that may run its pods, in the snapshot's order. ``max_surge`` is the strategy's surge as far as quotas
    admit it. With ``accept_unknown``, nodes with unknown filter results count as feasible, which gives the upper bound. ``decides`` is
    called with the nodes of the first new replicas once all later ones certainly have capacity. If it returns True, the simulation ends
    early.
    """

    def __init__(
        self,
        workload: Workload,
        snapshot: ClusterSnapshot,
        next_pods: NextPods,
        candidates: tuple[str, ...],
        topology: Topology,
        topology_keys: Sequence[str],
        *,
        max_surge: int,
        accept_unknown: bool,
        decides: t.Optional[t.Callable[[Sequence[str]], bool]] = None,
    ) -> None:
        self._workload = workload
        self._snapshot = snapshot
        self._next_pods = next_pods
        self._cluster_state = next_pods.cluster_state.fork()
        self._candidates = candidates
        self._topology = topology
        self._counts = ReplicaCounts(topology.groups, topology_keys)
        self._max_surge = max_surge
        self._accept_unknown = accept_unknown
        self._decides = decides
        self._decided = False
        self._set_ordinal(None)
        self._new: list[str] = []
        self._terminating = ending_pods(self._cluster_state)
        self._old = OldPods((), self._counts.per_node, snapshot.read_at_s)
        self._first: t.Optional[Feasibility] = None

    def run(self) -> SimulatedRestart:
        """Simulate the restart to its end, or to the point where no node is feasible for a new pod.

        Raise NodeUnknownError if it is not known on which node a pod runs.
        """
        stuck: t.Optional[Feasibility] = None
        preempts = certainly = False
        earlier = self._terminating
        self._end(self._ended_at_begin())
        try:
            if self._workload.kind == "StatefulSet":
                self._replace_by_ordinal()
            elif update_strategy_type(self._workload) == "Recreate":
                self._recreate()
            else:
                self._roll()
        except _NoCapacity as error:
            stuck = error.feasibility
        except _PreemptionError as error:
            preempts, certainly = True, error.certainly
        self._end(self._terminating)
        if stuck is None and not preempts:
            for pod in self._old.take(len(self._old)):
                self._remove_old_pod(pod)
        for pod in earlier:  # these are still terminating when another workload is decided on the same snapshot
            self._cluster_state.restore(pod)
        first = self._first or Feasibility((), {}, (), {})
        return SimulatedRestart(tuple(self._new), stuck, first, self._cluster_state, self._decided, preempts, certainly)

    def _old_pods(self) -> list[Pod]:
        """Return the pods that are replaced. Those that a rollout in progress has created are kept."""
        return self._snapshot.outdated_pods(self._workload) or self._present_pods()

    def _present_pods(self) -> list[Pod]:
        return [pod for pod in self._snapshot.owned_pods(self._workload) if not pod.terminal and not pod.terminating]

    def _keep_new_pods(self, old: Sequence[Pod]) -> int:
        """Record the pods of a rollout in progress. Return the number of replicas after it."""
        outdated = self._snapshot.outdated_pods(self._workload)
        for pod in self._snapshot.placed_pods(self._workload) if outdated else ():
            self._add_new_replica(pod.spec.node_name)
        return self._workload.spec.replicas if outdated else min(self._workload.spec.replicas, len(old))

    def _roll(self) -> None:
        replicas = self._workload.spec.replicas
        bounds = rollout_bounds(self._workload)
        pods = self._old_pods()
        self._count_old(pods)
        old = self._old = OldPods(pods, self._counts.per_node, self._snapshot.read_at_s, self._removal_order(pods))
        wanted = self._keep_new_pods(pods)

        def place_in_free_slots(most: int = wanted) -> None:
            slots = min(replicas + self._max_surge - len(old) - len(self._new), wanted - len(self._new), most)
            while slots > 0 and not self._is_decided(wanted) and self._try_to_place():
                slots -= 1

        ready = 0
        while len(self._new) < wanted and not self._is_decided(wanted):
            # New pods have become ready since. The controller first creates the additional pods, and then removes old ones.
            placed = len(self._new)
            self._begin_step()
            ready = self._ready(ready, placed)
            place_in_free_slots(self._placed_before_removal(wanted))
            removed = old.take(len(old) + ready - (replicas - bounds.max_unavailable))
            for pod in removed:
                self._remove_old_pod(pod, uses_node=not self._has_ended_at_removal(pod, len(removed)))
            if len(self._new) == placed == ready:
                self._place()
            place_in_free_slots()

    def _recreate(self) -> None:
        old = self._old_pods()
        self._count_old(old)
        for pod in old:
            self._remove_old_pod(pod)
        wanted = self._keep_new_pods(old)
        while len(self._new) < wanted and not self._is_decided(wanted):
            self._place()

    def _replace_by_ordinal(self) -> None:
        first = self._workload.first_ordinal
        old = {ordinal(pod) for pod in self._old_pods()}
        by_ordinal = {ordinal(pod): pod for pod in self._present_pods()}
        wanted = range(first, first + self._workload.spec.replicas)
        ordinals = sorted(number for number in by_ordinal if number in wanted)
        kept = [number for number in ordinals if number - first < partition(self._workload) or number not in old]
        for number in kept:
            # A pod without a node is no replica anywhere, now and after the restart.
            if by_ordinal[number].spec.node_name:
                self._add_new_replica(by_ordinal[number].spec.node_name)
        replaced = [number for number in ordinals if number not in kept]
        self._count_old(by_ordinal[number] for number in replaced)
        for left in range(len(replaced), 0, -1):
            # Each ordinal has its own labels and claims.
            if self._is_decided(len(ordinals), replaced[:left]):
                break
            number = replaced[left - 1]
            self._begin_step()
            self._remove_old_pod(by_ordinal[number])
            self._set_ordinal(number)
            self._place()

    def _count_old(self, pods: Iterable[Pod]) -> None:
        for pod in pods:
            self._counts.per_node[pod.spec.node_name] += 1

    def _remove_old_pod(self, pod: Pod, *, uses_node: bool = False) -> None:
        """Remove the pod. ``uses_node``: the scheduler places the next pod while this one is terminating on its node."""
        self._cluster_state.remove(pod)
        if uses_node and pod.spec.node_name in self._snapshot.nodes:
            terminating = terminating_copy(pod)
            self._cluster_state.assign(terminating, pod.spec.node_name)
            self._terminating.append(terminating)
        self._counts.per_node[pod.spec.node_name] -= 1
        self._old.recount(pod.spec.node_name)

    def _end(self, pods: Sequence[Pod]) -> None:
        """Remove these terminating pods from their nodes."""
        for pod in pods:
            self._cluster_state.remove(pod)
        ended = set(map(id, pods))
        self._terminating = [pod for pod in self._terminating if id(pod) not in ended]

    def _set_ordinal(self, ordinal: t.Optional[int]) -> None:
        """Use the pod of this ordinal as the model for the next pods."""
        self._ordinal = ordinal
        self._pod = self._next_pods.pod(ordinal)
        self._filter_runner = self._next_pods.filters(self._cluster_state, ordinal)
        self._find_node: t.Optional[t.Callable[[], t.Optional[str]]] = None

    def _is_decided(self, wanted: int, ordinals: t.Optional[Sequence[int]] = None) -> bool:
        """Return whether the replicas that follow, up to ``wanted``, cannot change the caller's decision.

        ``ordinals``: those of the replicas that follow, if each has a pod of its own.
        """
        if not self._decided and self._decides is not None and self._decides(self._new):
            pods = wanted - len(self._new)
            runners = (
                (self._filter_runner,)
                if ordinals is None
                else (self._next_pods.filters(self._cluster_state, number) for number in ordinals)
            )
            self._decided = all(runner.has_capacity_for(pods, self._candidates) for runner in runners)
        return self._decided

    def _place(self) -> None:
        if self._try_to_place():
            return
        # The scheduler tries again when a pod has ended.
        while self._terminating:
            self._end(self._end_next())
            if self._try_to_place():
                return
        raise _NoCapacity(self._filter_runner.feasibility(self._candidates))

    def _try_to_place(self) -> bool:
        self._note_first()
        if self._find_node is None:
            self._find_node = self._make_node_finder()
        node = self._find_node()
        if node is None:
            if self._next_pods.may_preempt(self._ordinal):
                raise _PreemptionError(certainly=may_preempt(self._pod, self._filter_runner, self._cluster_state, certainly=True))
            return False
        if self._first is not None:
            self._first = _with_unknown(self._first, self._filter_runner.unknown, node, self._filter_runner.run_filters(node)[1])
        number = len(self._new)
        metadata = replace(self._pod.metadata, name=f"simulated-{number}", uid=f"simulated-{self._workload.metadata.uid}-{number}")
        self._cluster_state.assign(replace(self._pod, metadata=metadata), node)
        self._add_new_replica(node)
        return True

    def _make_node_finder(self) -> t.Callable[[], t.Optional[str]]:
        """Return a function that returns the node of the next pod like the present one, or None if no node is feasible."""
        return LeastLoadedNode(
            self._filter_runner,
            self._cluster_state,
            self._candidates,
            self._topology.groups,
            self._counts,
            accept_unknown=self._accept_unknown,
        ).find

    def _add_new_replica(self, node: str) -> None:
        """Record a replica of the new revision on the node."""
        self._new.append(node)
        self._counts.add(node)
        self._old.recount(node)

    # --- what is not known, here with the best result -------------------------------------------------------------------------

    def _note_first(self) -> None:
        """Record the filter results for the first new pod. Others than the best restart are simulated only if these allow one."""
        if self._first is None:
            self._first = self._filter_runner.feasibility(self._candidates)

    def _ended_at_begin(self) -> Sequence[Pod]:
        """Return the pods that were terminating before, and have ended."""
        return self._terminating

    def _begin_step(self) -> None:
        """Remove the terminating pods that have ended since the last step of the rollout."""

    def _removal_order(self, _pods: Sequence[Pod]) -> t.Optional[random.Random]:
        """Return the generator for the order in which old pods of one rank are removed. None means by their age."""
        return None

    def _ready(self, _before: int, placed: int) -> int:
        """Return how many of the ``placed`` new pods are ready in the next step, if ``_before`` were ready in the step before."""
        return placed

    def _placed_before_removal(self, wanted: int) -> int:
        """Return the most new pods of a step that are placed before its old pods are removed. ``wanted``: all of them."""
        return wanted

    def _has_ended_at_removal(self, _pod: Pod, _removed: int) -> bool:
        """Return whether the pod has ended when the pods that replace the ``_removed`` pods of one step are placed."""
        return True

    def _end_next(self) -> Sequence[Pod]:
        """Return those of the terminating pods that end when a new pod finds no node."""
        return self._terminating


def _with_unknown(first: Feasibility, unknown: Reasons, node: str, unknown_of_node: Reasons) -> Feasibility:
    """Return the first result with the unknowns of a node that a later pod used. Otherwise such a node would count as certain."""
    if unknown_of_node and node not in first.unknown_nodes:
        first = replace_fields(first, unknown_nodes={**first.unknown_nodes, node: unknown_of_node})
    if not set(unknown) <= set(first.unknown):
        first = replace_fields(first, unknown=tuple(dict.fromkeys((*first.unknown, *unknown))))
    return first
