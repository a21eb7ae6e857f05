# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The reasons why nodes stay closed to a pod even after evictions, with the number of nodes."""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable

from ...model.budgets.ledger import BUDGET, SEVERAL_BUDGETS
from ...model.reason import Blocker, Reason, Reasons
from ..eviction_rules.eviction_filter import pods_of_node
from .capacity import Shortage
from .node_candidate import NodeCandidate
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
        # The number of nodes for each set of reasons, with an addition to their texts.
        self._closed: Counter[tuple[Reasons, str]] = Counter()
        # The pods that eviction rules protect: the number of nodes by the code of the rule, and the number of pods by the reason.
        self._protected_nodes: Counter[str] = Counter()
        self._protected_pods: Counter[Reason] = Counter()

    def explain(self, node_names: t.Optional[Iterable[str]]) -> tuple[Blocker, ...]:
        """Return the reasons why no eviction helps on these nodes, or on all nodes for None. The search has found no victims there.

        If no eviction would help, these are the scheduler's reasons. Otherwise they are what is still missing after all allowed evictions,
        and the eviction rules that protect the other pods; options may change some of these rules. The reason with the most nodes comes
        first.
        """
        for name in self._context.cluster_state.in_order(node_names):
            closed = self._search.unknown or self._search.closed_on(name)
            if closed:
                self._closed[closed, ""] += 1
            else:
                self._add(name)
        counted: Counter[Reason] = Counter()
        for (reasons, addition), nodes in self._closed.items():
            counted.update({Reason(one.code, one.text + addition): nodes for one in reasons})
        found = [Blocker(reason, nodes) for reason, nodes in counted.items()]
        found += [Blocker(Reason(code, self._protected_text(code)), nodes) for code, nodes in self._protected_nodes.items()]
        return tuple(sorted(found, key=lambda blocker: (-blocker.nodes, blocker.reason.code, blocker.reason.text)))

    def _add(self, name: str) -> None:
        """Add a node that is closed because of its pods, or because of a filter that depends on them."""
        context = self._context
        info = context.cluster_state.info(name)
        node_pods = pods_of_node(info, context.options).all_pods
        empty = context.runner.result_on_empty_node(name) if len(node_pods) == len(info.pods) else None
        rejected, unknown = empty or context.filter_result(name, [node_pod.pod for node_pod in node_pods])
        if rejected or unknown:
            self._closed[rejected, ", even without its other pods"] += 1
            self._closed[unknown, ""] += 1
            return
        shortage = self._search.shortage_on(name)
        rejected, unknown = context.filter_result(name, [pod.node_pod.pod for pod in shortage.evictable])
        if not rejected and not unknown:
            self._add_joint(name, shortage)
            return
        self._closed[rejected, ", even after all allowed evictions"] += 1
        self._closed[unknown, ""] += 1
        staying = [reason for reason in map(self._search.eviction_filter.eviction_violation, node_pods) if reason is not None]
        self._protected_pods.update(staying)
        self._protected_nodes.update({reason.code for reason in staying})

    def _add_joint(self, name: str, shortage: Shortage) -> None:
        """Add a node on which each of the pods may be evicted, but not enough of them together."""
        most = self._context.options.max_victims
        attempt = NodeCandidate(name, shortage, self._context, max_victims=None)
        list(attempt.bounds())  # to the end, so that its victims are known
        if attempt.victims is None:
            self._closed[(_TOGETHER,), ""] += 1
        elif most is not None and len(attempt.victims) > most:
            self._closed[(Reason(MAX_VICTIMS, f"more than {most} pods would have to be evicted"),), ""] += 1

    def _protected_text(self, code: str) -> str:
        by_text = {reason.text: pods for reason, pods in self._protected_pods.items() if reason.code == code}
        number, texts = sum(by_text.values()), sorted(by_text)  # sorted, so that equal clusters give equal results
        text = texts[0] if len(texts) == 1 else _OF_SEVERAL.get(code)
        if text is None:
            more = f"; and {len(texts) - MAX_TEXTS} more reasons of this kind" if len(texts) > MAX_TEXTS else ""
            text = "; ".join(texts[:MAX_TEXTS]) + more
        return f"{number} pod{'' if number == 1 else 's'} there: {text}"
