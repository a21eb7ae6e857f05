# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The differences between the predicates and the real scheduler for one pod."""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod, PodTemplate
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.pod_template import pod_of_template
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reasons
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.scheduler_profile import DEFAULT_PROFILE
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.cluster_state import ClusterState
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.feasibility import Feasibility, FilterRunner, find_feasible
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.filters import node_declared_features, node_resources_fit
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.node_info import NodeInfo, PodLoad, pod_key
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler.unknowns.volumes import volume_unknowns
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.profiles import profiles_of

from lab.recorder import REFUSAL
from tests.integration.oracle.profiles import configuration
from tests.integration.oracle.world import Answer

MOVED = 3
"""The number of pods that are removed and assigned again, to check that the results change with them."""
PROFILES = profiles_of({**configuration(""), "extenders": []}, "oracle")
"""The profiles as the library reads them. The recorder is not an extender that filters."""


@dataclass(frozen=True)
class Disagreement:
    """One pod, one node (empty for the message as a whole), and both results."""

    pod: str
    node: str
    ours: str
    scheduler: str

    def __str__(self) -> str:
        return f"predicates: {self.ours}\nscheduler:  {self.scheduler}\nnode: {self.node}\npod: {self.pod}"


def run_filters(pod: Pod, cluster_state: ClusterState) -> Feasibility:
    """Return the result of the predicates for a pod of the scheduler under test."""
    return find_feasible(pod, cluster_state, profiles=PROFILES)


def disagreements(pod: Pod, cluster_state: ClusterState, found: Feasibility, answer: Answer) -> list[Disagreement]:
    """Every node on which the two differ; if none, the reasons; for the pod as it is and as its template would have it."""
    differing = [_about(name, pod, cluster_state, found, answer) for name in sorted(_wrong_nodes(found, answer.passed))]
    if not differing and not found.unknown and not found.unknown_nodes and not _hides_doubts(pod, cluster_state, found):
        differing += _reasons(pod, found, answer, len(cluster_state.snapshot.nodes))
    made_later = any(volume.ephemeral is not None for volume in pod.spec.volumes or ())
    # The default constraints count the pods of the controller, which a template does not name.
    by_owner = PROFILES.get(pod.spec.scheduler_name, DEFAULT_PROFILE).default_constraints and not pod.spec.topology_spread_constraints
    if not differing and not pod.spec.runtime_class_name and not made_later and not by_owner:
        differing += _template(pod, cluster_state, found, answer)
    return differing or _without_namespaces(pod, cluster_state, found) or _after_changes(pod, cluster_state)


def sure_of(found: Feasibility) -> int:
    """Return the number of nodes with a certain result."""
    return len(found.rejected) + (0 if found.unknown else len(found.feasible))


def _wrong_nodes(found: Feasibility, passed: frozenset[str]) -> set[str]:
    sure, possible = set(found.feasible), {*found.feasible, *found.unknown_nodes}
    silent_yes = set() if found.unknown else sure - passed
    return silent_yes | (passed - possible)


def _hides_doubts(pod: Pod, cluster_state: ClusterState, found: Feasibility) -> bool:
    """A node is rejected by one rule, and by an earlier one perhaps as well: its first reason is not known."""
    profile = PROFILES.get(pod.spec.scheduler_name, DEFAULT_PROFILE)
    volumes, classes = cluster_state.volumes_of(pod), cluster_state.snapshot.device_classes
    by_volumes = None if volumes is None else volume_unknowns(volumes, cluster_state.storage, cluster_state.arrived_pods)
    # Dynamic resource allocation is asked before the features that nodes declare, and after all else.
    devices = node_resources_fit.device_class_resources(pod, classes)
    by_devices = node_resources_fit.device_unknowns(pod, classes, profile, devices)
    late = [name for name, reasons in found.rejected.items() if reasons == node_declared_features.UNDECLARED]
    return _says_something(by_volumes, found.rejected, cluster_state) or _says_something(by_devices, late, cluster_state)


def _says_something(doubts: Callable[[NodeInfo], Reasons] | None, names: Iterable[str], cluster_state: ClusterState) -> bool:
    return doubts is not None and any(doubts(info) for name in names for info in _with_and_without_nominated(name, cluster_state))


def _with_and_without_nominated(name: str, cluster_state: ClusterState) -> Iterator[NodeInfo]:
    info = cluster_state.info(name)
    yield info
    for nominated in cluster_state.nominated_pods().get(name, ()):
        info = info.with_pod(pod_key(nominated), nominated, PodLoad.of(nominated))
        yield info


def _reasons(pod: Pod, found: Feasibility, answer: Answer, node_count: int) -> list[Disagreement]:
    ours = Counter({reason.text: count for reason, count in found.counts()})
    theirs = message_counts(answer.message, node_count)
    theirs.pop(REFUSAL, None)
    if ours == theirs:
        return []
    return [Disagreement(_text(pod), "", f"{dict(ours)}, passed {sorted(found.feasible)}", answer.message)]


def message_counts(message: str, node_count: int) -> Counter[str]:
    """The reasons of a message such as ``0/5 nodes are available: 2 Insufficient cpu, 3 Too many pods.``"""
    text = message.partition("nodes are available: ")[2].strip().removesuffix(".")
    parts = [re.fullmatch(r"(\d+) (.+)", part) for part in text.split(", ")]
    if any(part is None for part in parts):
        return Counter({text: node_count})
    return Counter({part[2]: int(part[1]) for part in parts if part is not None})


def _template(pod: Pod, cluster_state: ClusterState, found: Feasibility, answer: Answer) -> list[Disagreement]:
    """The manifest as a workload's template, which the API server leaves as it is, must get the same result as the pod."""
    template = decode_json(PodTemplate, encode_json(answer.sent))
    by_template = run_filters(pod_of_template(pod.metadata.namespace, template), cluster_state)
    # Without a class the template's priority is not known, nor which nominated pods go before its pod.
    unranked = "priorityClassName" not in answer.sent["spec"] and bool(cluster_state.nominated_pods())
    if by_template == found or (unranked and _knows_less(by_template, found)):
        return []
    return [Disagreement(encode_json(answer.sent).decode(), "", f"template: {by_template}", f"pod: {found}")]


def _without_namespaces(pod: Pod, cluster_state: ClusterState, found: Feasibility) -> list[Disagreement]:
    """Compare with a result without namespaces. Unread labels of namespaces make results unknown, but not different."""
    snapshot = copy.copy(cluster_state.snapshot)
    snapshot.namespaces = {}
    blind = run_filters(pod, ClusterState.of(snapshot))
    return [] if _knows_less(blind, found) else [Disagreement(_text(pod), "", f"without namespaces: {blind}", f"with: {found}")]


def _after_changes(pod: Pod, cluster_state: ClusterState) -> list[Disagreement]:
    """Compare a FilterRunner that is updated after each change of pods with a new one. Their results are equal."""
    now = cluster_state.fork()
    there = [other for other in cluster_state.snapshot.pods if other.spec.node_name in cluster_state.snapshot.nodes and other is not pod]
    moving = [other for other in there if not other.terminal][:MOVED]
    runner = FilterRunner(pod, now, PROFILES)
    runner.feasibility()
    for move in (*((other, "") for other in moving), *((other, other.spec.node_name) for other in reversed(moving))):
        other, home = move
        if home:
            now.assign(other, home)
        else:
            now.remove(other)
        followed, fresh = runner.feasibility(), run_filters(pod, now)
        if followed != fresh:
            step = f"after {'the return' if home else 'the end'} of {_text(other)}"
            return [Disagreement(_text(pod), "", f"{step}: {followed}", f"fresh: {fresh}")]
    return []


def _knows_less(less: Feasibility, found: Feasibility) -> bool:
    """Return whether each certain result of ``less`` is in ``found``. The reason for which a node is rejected may differ."""
    sure = less.rejected.keys() <= found.rejected.keys() and set(less.feasible) <= set(found.feasible)
    return sure and less.unknown == found.unknown


def _about(name: str, pod: Pod, cluster_state: ClusterState, found: Feasibility, answer: Answer) -> Disagreement:
    info = cluster_state.info(name)
    there = [_text(other) for other in cluster_state.pods_on(name)]
    node = f"{_text(info.node)}\n  requested {info.requested}, used ports {info.used_ports}\n  pods " + "\n  pods ".join(there)
    ours = f"rejected {found.rejected[name]}" if name in found.rejected else "feasible"
    theirs = f"{'feasible' if name in answer.passed else 'rejected'} ({answer.message})"
    return Disagreement(_text(pod), node, ours, theirs)


def _text(value: object) -> str:
    return encode_json(value).decode()
