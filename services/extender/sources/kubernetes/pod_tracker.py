# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pods on each node, with those that ended recently, and the outcomes of pods."""

from __future__ import annotations

import typing as t
from collections.abc import Callable
from dataclasses import replace

from .....plugins.module_utils.kube.cache.store import ADDED, Store, key_of
from .....plugins.module_utils.model.undecodable import Undecodable, as_undecodable
from .....plugins.module_utils.model.values.quantity import QuantityError
from ...interface import PodView
from ..clock import Clock
from .pod_objects import POD_FIELD_SELECTOR, POD_RESOURCE, PodRecord, SharedParts, pod_record_of

KNOWN_AFTER_END_S = 600.0
"""Seconds for which a pod is known after its end."""

MAX_ENDED = 500
"""Ended pods of one node that are known. A kubelet runs 110 pods. Each binding reads all pods of its node, so there must be a limit."""

LEAST_PARTS = 10_000
"""If fewer shared parts than this are kept, unused ones are not searched for."""


class Outcome(t.NamedTuple):
    """The result of a placement: the pod, its node, and whether it runs well. ``at_s``: the time of the observation."""

    pod: PodView
    node: str
    succeeded: bool
    at_s: float


class PodChanges(t.NamedTuple):
    """The nodes on which a pod was bound or has ended, with their newest pods, and the new outcomes."""

    nodes: dict[str, tuple[PodView, ...]]
    outcomes: list[Outcome]


class PodTracker:
    """The pods by node. All methods are called under one lock."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodView]] = {}
        self._last_outcomes: dict[str, bool] = {}
        self._changed: set[str] = set()
        self._outcomes: list[Outcome] = []

    def pods_on(self, node: str) -> tuple[PodView, ...]:
        """Return the pods on a node, and those that ended in the last ten minutes, at most the last MAX_ENDED of them."""
        return tuple(self._by_node.get(node, {}).values())

    def note(self, before: PodRecord | None, after: PodRecord | None, clock: Clock, *, is_bound_now: bool, reports: bool = True) -> None:
        """Take over the change of a pod with a node. ``is_bound_now``: the pod was bound just now. A list shows earlier bindings.

        ``reports``: a new outcome is reported. It is false for pods that existed before the program started.
        """
        if after is None:
            if before is not None:
                self._end(before, clock)
                self._last_outcomes.pop(before.metadata.uid, None)
            return
        known = self._by_node.get(after.node, {}).get(after.metadata.uid)
        bound_at_s = known.bound_at_s if known is not None else clock.now_s if is_bound_now else _bound_at(after, clock)
        # A pod that had ended runs again: one that could not be decoded for a while, or a static pod after a restart of its node.
        ended_at_s = known.ended_at_s if known is not None and after.ended else None
        view = _view(after, bound_at_s, ended_at_s)
        # A pod that ended before it was seen uses nothing.
        if known is not None or is_bound_now or not after.ended:
            if known is None or known.demand != view.demand or known.ended_at_s != view.ended_at_s:
                self._changed.add(after.node)
            if known != view:
                self._by_node.setdefault(after.node, {})[view.uid] = view
            if after.ended:
                self._end(after, clock)
        self._note_outcome(after, view, clock.now_s, reports)

    def take_changes(self) -> PodChanges:
        """Return the changes since the last call."""
        changes = PodChanges({node: self.pods_on(node) for node in self._changed}, self._outcomes)
        self._changed, self._outcomes = set(), []
        return changes

    def forget_ended(self, now_s: float) -> None:
        """Remove the pods that ended more than ten minutes ago."""
        for node, pods in list(self._by_node.items()):
            for view in [view for view in pods.values() if view.ended_at_s is not None and now_s - view.ended_at_s > KNOWN_AFTER_END_S]:
                del pods[view.uid]
            if not pods:
                del self._by_node[node]

    def _end(self, record: PodRecord, clock: Clock) -> None:
        pods = self._by_node.get(record.node, {})
        known = pods.get(record.metadata.uid)
        if known is None or known.ended_at_s is not None:
            return
        pods[known.uid] = replace(known, ended_at_s=clock.now_s)
        ended = {view.uid: view.ended_at_s for view in pods.values() if view.ended_at_s is not None}
        if len(ended) > MAX_ENDED:
            del pods[min(ended, key=ended.__getitem__)]
        self._changed.add(record.node)

    def _note_outcome(self, record: PodRecord, view: PodView, now_s: float, reports: bool) -> None:
        succeeded = record.succeeded
        if succeeded is None or self._last_outcomes.get(view.uid) == succeeded:
            return
        self._last_outcomes[view.uid] = succeeded
        if reports:
            self._outcomes.append(Outcome(view, record.node, succeeded, now_s))


class TrackedPodStore(Store):
    """The store of pods, as ``PodRecord``. It passes every change to a tracker. ``clock`` returns the present moment."""

    def __init__(self, tracker: PodTracker, clock: Callable[[], Clock]) -> None:
        super().__init__(POD_RESOURCE, POD_FIELD_SELECTOR)
        self._tracker = tracker
        self._clock = clock
        self._shared = SharedParts()
        self._most_parts = LEAST_PARTS
        self._was_listed = False

    def decode_page(self, data: bytes) -> list[t.Any]:
        """Return the pods of one page of a list. Their resource versions are not kept, because nothing writes pods."""
        found = super().decode_page(data)
        for item in found:
            if isinstance(item, PodRecord):
                item.metadata.resource_version = ""
        return found

    def replace(self, items: list[t.Any]) -> bool:
        """Replace all pods as ``Store.replace`` does."""
        before = self._items
        changed = super().replace(items)
        if changed or not self._was_listed:
            clock, after = self._clock(), self._items
            for key in [key for key in before if key not in after]:
                self._tracker.note(before[key], None, clock, is_bound_now=False)
            for key, record in after.items():
                if before.get(key) is not record:
                    self._tracker.note(before.get(key), record, clock, is_bound_now=False, reports=self._was_listed)
        self._was_listed = True
        self._forget_unused()
        return changed

    def apply(self, change: str, item: t.Any) -> bool:
        """Apply one watch event as ``Store.apply`` does."""
        key = key_of(item)
        before = self._items.get(key)
        changed = super().apply(change, item)
        after = self._items.get(key)
        if after is not before:
            # A pod is ADDED when it gets its node. If an earlier version could not be decoded, it is MODIFIED.
            self._tracker.note(before, after, self._clock(), is_bound_now=change == ADDED)
        self._forget_unused()
        return changed

    def _interned(self, item: t.Any) -> PodRecord | Undecodable:
        try:
            return pod_record_of(item, self._shared)
        except QuantityError as error:
            return as_undecodable(self.resource.kind, item, str(error))

    def _forget_unused(self) -> None:
        """Remove the shared parts that no pod has any more."""
        if len(self._shared) > self._most_parts:
            self._shared.retain(self._items.values())
            self._most_parts = max(LEAST_PARTS, 2 * len(self._shared))


def _view(record: PodRecord, bound_at_s: float | None, ended_at_s: float | None = None) -> PodView:
    identity = record.metadata
    return PodView(
        namespace=identity.namespace,
        name=identity.name,
        uid=identity.uid,
        scheduler_name=record.scheduler_name,
        labels=record.labels,
        demand=record.demand,
        bound_at_s=bound_at_s,
        ended_at_s=ended_at_s,
        owner=record.owner,
    )


def _bound_at(record: PodRecord, clock: Clock) -> float:
    """Return the monotonic time of a binding that was not seen. It is never in the future. An unknown time counts as now."""
    at_s = clock.monotonic(record.bound_time_s) if record.bound_time_s is not None else None
    return at_s if at_s is not None else clock.now_s
