# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The reasons why nodes stay closed to a pod even after evictions, with the number of nodes."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from ...model.budgets.ledger import BUDGET, SEVERAL_BUDGETS
from ...model.reason import Blocker, Reason, Reasons
from ..eviction_rules.eviction_filter import pods_of_node
from ..victims.node_pod import NodePod
from .node_candidate import NodeCandidate
from .shortage import Shortage
from .victim_search import VictimSearch

MAX_VICTIMS = "max_victims"
MAX_TEXTS = 2
"""The number of different texts that are shown for one code."""
_TOGETHER = Reason(BUDGET, "PodDisruptionBudgets do not allow all evictions that are needed together")
_OF_SEVERAL = {
    BUDGET: "PodDisruptionBudgets allow no disruption now",
    SEVERAL_BUDGETS: "more than one PodDisruptionBudget selects them, and the API server evicts no such pod",
}


class Diagnosis:
    """Collects the reasons that close nodes to one pod."""

    def __init__(self, search: VictimSearch) -> None:
        self._search, self._context = search, search.context
        self._nodes: Counter[Reason] = Counter()
        # The number of nodes for each set of reasons: of nodes that are closed for other causes than their pods, and of nodes that would be
        # closed even without their pods.
        self._closed: Counter[Reasons] = Counter()
        self._closed_empty: Counter[Reasons] = Counter()
        # By the code of the eviction rule that protects pods: the number of nodes, the number of pods, and the texts.
        self._protected_nodes: Counter[str] = Counter()
        self._protected_pods: Counter[str] = Counter()
        self._words: dict[str, set[str]] = {}

    def explain(self, node_names: t.Optional[Iterable[str]]) -> tuple[Blocker, ...]:
        """Return the reasons why no eviction helps on these nodes, or on all nodes for None. The search has found no victims there.

        If no eviction would help, these are the scheduler's reasons. Otherwise they are what is still missing after all allowed evictions,
        and the eviction rules that protect the other pods; options may change some of these rules. The reason with the most nodes comes
        first.
        """
        for name in self._context.cluster_state.in_order(node_names):
            closed = self._search.unknown or self._search.closed_on(name)
            if closed:
                self._closed[closed] += 1
            else:
                self._add(name)
        counted = Counter(self._nodes)
        for reasons, nodes in self._closed.items():
            counted.update(dict.fromkeys(reasons, nodes))
        for reasons, nodes in self._closed_empty.items():
            counted.update(dict.fromkeys((Reason(one.code, f"{one.text}, even without its other pods") for one in reasons), nodes))
        found = [Blocker(reason, nodes) for reason, nodes in counted.items()]
        found += [Blocker(Reason(code, self._protected_text(code)), nodes) for code, nodes in self._protected_nodes.items()]
        return tuple(sorted(found, key=lambda blocker: (-blocker.nodes, blocker.reason.code, blocker.reason.text)))

    def _add(self, name: str) -> None:
        """Add a node that is closed because of its pods, or because of a filter that depends on them."""
        dry_run = self._context.dry_run
        info = self._context.cluster_state.info(name)
        node_pods = pods_of_node(info, self._context.options).all_pods
        empty = dry_run.filter_result_on_empty(name) if len(node_pods) == len(info.pods) else None
        rejected, unknown = empty or dry_run.filter_result(name, [node_pod.pod for node_pod in node_pods])
        if rejected or unknown:
            self._closed_empty[rejected] += 1
            self._closed[unknown] += 1
            return
        shortage = self._search.shortage_on(name)
        rejected, unknown = dry_run.filter_result(name, [pod.node_pod.pod for pod in shortage.evictable])
        if not rejected and not unknown:
            self._add_joint(name, shortage)
            return
        self._nodes.update(Reason(reason.code, f"{reason.text}, even after all allowed evictions") for reason in set(rejected))
        self._nodes.update(set(unknown))
        self._count_protected(node_pods)

    def _count_protected(self, node_pods: Iterable[NodePod]) -> None:
        staying = [reason for reason in map(self._search.eviction_filter.eviction_violation, node_pods) if reason is not None]
        self._protected_pods.update(reason.code for reason in staying)
        self._protected_nodes.update({reason.code for reason in staying})
        for reason in staying:
            self._words.setdefault(reason.code, set()).add(reason.text)

    def _add_joint(self, name: str, shortage: Shortage) -> None:
        """Add a node on which each of the pods may be evicted, but not enough of them together."""
        most = self._context.options.max_victims
        unbounded = replace(self._context, options=replace(self._context.options, max_victims=None), result_cache={})
        attempt = NodeCandidate(name, shortage, unbounded)
        for _bound in attempt.bounds():
            pass
        if attempt.victims is None:
            self._nodes[_TOGETHER] += 1
        elif most is not None and len(attempt.victims) > most:
            self._nodes[Reason(MAX_VICTIMS, f"more than {most} pods would have to be evicted")] += 1

    def _protected_text(self, code: str) -> str:
        number, words = self._protected_pods[code], self._words[code]
        text = next(iter(words)) if len(words) == 1 else _OF_SEVERAL.get(code) or _first_of(words)
        return f"{number} pod{'' if number == 1 else 's'} there: {text}"


def _first_of(words: set[str]) -> str:
    """Return the first texts in sorted order, so that equal clusters give equal results."""
    ordered = sorted(words)
    more = f"; and {len(ordered) - MAX_TEXTS} more reasons of this kind" if len(ordered) > MAX_TEXTS else ""
    return "; ".join(ordered[:MAX_TEXTS]) + more
