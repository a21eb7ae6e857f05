# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The newest state of all pods: by node and by owner, with the times at which they became unschedulable and the assumed evictions."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterable

from ...model.api.meta import ApiStruct
from ...model.api.pod import Pod
from ...model.codec import DecodeError, UndecodedItem, decode_items, decode_object, field, replace
from ...model.snapshot import node_name_of, owner_key
from ..client.resources import PODS
from .store import DELETED, InterningStore, key_of

K = t.TypeVar("K")

ASSUMED_FOR_S = 30.0
"""Seconds. The watch shows changes of this program within milliseconds. A change that is not shown by then did not happen."""


class _TimedCondition(ApiStruct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: t.Optional[str] = None


class _TimedStatus(ApiStruct, frozen=True):
    conditions: t.Optional[tuple[_TimedCondition, ...]] = None


class _TimedPod(ApiStruct, frozen=True):
    """The times of a pod's conditions. The structs of all pods omit these times, because conditions with times could not be shared."""

    status: _TimedStatus = field(default_factory=_TimedStatus)

    @property
    def unschedulable_since(self) -> str:
        for condition in self.status.conditions or ():
            if condition.type == "PodScheduled" and condition.status == "False" and condition.reason == "Unschedulable":
                return condition.last_transition_time or ""
        return ""


def _timed(data: bytes) -> t.Optional[_TimedPod]:
    try:
        return decode_object(_TimedPod, data)
    except DecodeError:
        return None


class PodIndex(t.Generic[K]):
    """Pods by a key. A list is never changed but replaced, so that snapshots share the lists that have not changed."""

    def __init__(self, key: t.Callable[[Pod], t.Optional[K]]) -> None:
        self._key = key
        self.lists: dict[K, list[Pod]] = {}

    def rebuild(self, pods: Iterable[Pod]) -> None:
        """Group the pods again. A list with the same pods as before stays the same object."""
        groups: dict[K, list[Pod]] = {}
        for pod in pods:
            name = self._key(pod)
            if name is not None:
                groups.setdefault(name, []).append(pod)
        for name, group in groups.items():
            before = self.lists.get(name)
            if before is not None and len(before) == len(group) and set(map(id, before)) == set(map(id, group)):
                groups[name] = before
        self.lists = groups

    def change(self, before: t.Optional[Pod], after: t.Optional[Pod]) -> None:
        """Add, replace or remove one pod."""
        old = self._key(before) if before is not None else None
        new = self._key(after) if after is not None else None
        if old is not None:
            kept = [pod for pod in self.lists[old] if pod is not before]
            if old == new and after is not None:
                kept.append(after)
            if kept:
                self.lists[old] = kept
            else:
                del self.lists[old]
        if new is not None and new != old and after is not None:
            self.lists[new] = [*self.lists.get(new, ()), after]


class _Assumption(t.NamedTuple):
    """An assumption made at ``at_s`` (monotonic). ``pod`` is the last state that the API server has sent."""

    at_s: float
    pod: Pod


class PodStore(InterningStore):
    """The store of all pods."""

    def __init__(self) -> None:
        super().__init__(PODS)
        self.by_node = PodIndex(node_name_of)
        self.by_owner = PodIndex(owner_key)
        self._since: dict[str, str] = {}
        self.bound_at_s: dict[str, float] = {}
        """The time at which the watch last showed that a scheduler has bound a pod, by the scheduler's name (monotonic)."""
        self._terminating: dict[str, _Assumption] = {}
        self._kept_uids: frozenset[str] = frozenset()
        self._deleted: dict[str, Pod] = {}
        self._list_begun_s = 0.0

    def decode_page(self, data: bytes) -> list[t.Any]:
        """Decode a page as ``Store.decode_page`` does, and note the times at which pods became unschedulable."""
        pods = super().decode_page(data)
        if any(not pod.spec.node_name for pod in pods):
            for pod, timed in zip(pods, decode_items(_TimedPod, data)):
                self._note_since(pod, None if isinstance(timed, UndecodedItem) else timed)
        return pods

    def decode_event(self, data: bytes) -> t.Any:
        """Decode an event as ``Store.decode_event`` does, and note the time at which the pod became unschedulable."""
        pod: Pod = super().decode_event(data)
        self._note_since(pod, _timed(data) if not pod.spec.node_name else None)
        return pod

    def pod(self, uid: str) -> t.Optional[Pod]:
        """Return the pod with this uid, or None."""
        return self._items.get(uid)

    def note_list_start(self) -> None:
        """Note the time at which a list begins."""
        self._list_begun_s = time.monotonic()

    def replace(self, items: list[t.Any]) -> bool:
        """Replace all pods as ``Store.replace`` does.

        Assumptions that were made before the list began are removed, because the list shows the result.
        """
        self._terminating = {uid: assumed for uid, assumed in self._terminating.items() if assumed.at_s >= self._list_begun_s}
        changed = super().replace([self._as_assumed(pod) for pod in items])
        self._terminating = {uid: assumed for uid, assumed in self._terminating.items() if uid in self._items}
        for uid in list(self._since):
            pod = self._items.get(uid)
            if pod is None or pod.spec.node_name:
                self._since.pop(uid, None)
        if changed:
            self.by_node.rebuild(self._items.values())
            self.by_owner.rebuild(self._items.values())
        return changed

    def apply(self, change: str, item: t.Any) -> bool:
        """Apply one watch event as ``Store.apply`` does."""
        uid = key_of(item)
        if change == DELETED:
            self._terminating.pop(uid, None)
            self._since.pop(uid, None)
            if uid in self._kept_uids:
                self._deleted[uid] = item
        before = self._items.get(uid)
        if before is not None and not before.spec.node_name and item.spec.node_name:
            self.bound_at_s[item.spec.scheduler_name] = time.monotonic()
        changed = super().apply(change, item if change == DELETED else self._as_assumed(item))
        if changed:
            self._regroup(before, self._items.get(uid))
        return changed

    def unschedulable_since(self, uid: str) -> str:
        """Return the time at which the scheduler set the pod's PodScheduled to False with the reason Unschedulable, RFC 3339.

        It is empty if the pod has no such condition.
        """
        return self._since.get(uid, "")

    def retain_deleted(self, uids: Iterable[str]) -> None:
        """Keep the last state of exactly these pods when the watch shows their deletion."""
        self._kept_uids = frozenset(uids)
        self._deleted = {uid: pod for uid, pod in self._deleted.items() if uid in self._kept_uids}

    def last_state(self, uid: str) -> t.Optional[Pod]:
        """Return the last state of a deleted pod, or None if it was not to be kept, or the watch has not shown the deletion."""
        return self._deleted.get(uid)

    def assume_terminating(self, uid: str, *, deletion_timestamp: str) -> bool:
        """Show the pod as terminating until the watch does. Return false if there is no such pod, or it is already terminating."""
        pod = self._items.get(uid)
        if pod is None or pod.terminating:
            return False
        self._terminating[uid] = _Assumption(time.monotonic(), pod)
        shown = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=deletion_timestamp))
        self._put(pod, shown)
        return True

    def expire_assumptions(self) -> bool:
        """Show the API server's state of pods that did not terminate within ``ASSUMED_FOR_S``. Return false if there are none."""
        due_s = time.monotonic() - ASSUMED_FOR_S
        old = [(uid, assumed) for uid, assumed in self._terminating.items() if assumed.at_s < due_s]
        for uid, assumed in old:
            del self._terminating[uid]
            self._put(self._items[uid], assumed.pod)
        return bool(old)

    def _put(self, before: Pod, after: Pod) -> None:
        self._items[key_of(after)] = after
        self.version += 1
        self._regroup(before, after)

    def _regroup(self, before: t.Optional[Pod], after: t.Optional[Pod]) -> None:
        self.by_node.change(before, after)
        self.by_owner.change(before, after)

    def _as_assumed(self, pod: Pod) -> Pod:
        """Return the pod as it is shown: the API server's state with the assumption applied."""
        uid = pod.metadata.uid
        assumed = self._terminating.get(uid)
        if assumed is None:
            return pod
        if pod.terminating:
            del self._terminating[uid]
            return pod
        # This state was written before the eviction and received after it.
        self._terminating[uid] = assumed._replace(pod=pod)
        shown = self._items[uid].metadata.deletion_timestamp
        return replace(pod, metadata=replace(pod.metadata, deletion_timestamp=shown))

    def _note_since(self, pod: Pod, timed: t.Optional[_TimedPod]) -> None:
        since = timed.unschedulable_since if timed is not None and not pod.spec.node_name else ""
        if since:
            self._since[pod.metadata.uid] = since
        else:
            self._since.pop(pod.metadata.uid, None)
