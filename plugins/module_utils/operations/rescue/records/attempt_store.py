# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Attempts at rescues in a ConfigMap. Writes to the owners themselves would need rights close to cluster-admin."""

from __future__ import annotations

import typing as t
from collections.abc import Container, Mapping

from ....kube.client.api import KubeApi
from ....model.api.meta import ObjectMeta
from ....model.api.pod import Pod, PodSpec
from ....model.reason import Reason
from ....model.snapshot import ClusterSnapshot
from ....rescue.plan import Victim
from ....state.rescue_attempts import AttemptRecord, VictimRecord, cancel, configmap_patch, read_attempts, record_failure, record_success
from ...common.config_map_store import NAME, NAMESPACE, Changes, ConfigMapStore

Change = t.Callable[[t.Optional[AttemptRecord]], t.Optional[AttemptRecord]]


class AttemptStore:
    """Stores the entries of ``state/rescue_attempts.py`` in the ConfigMap ``namespace``/``name``, which the first write creates.

    Only tests use another namespace or name: all programs of a cluster share one ConfigMap. ``dropped`` has the names of entries that were
    shortened or removed for lack of space. The caller clears it.
    """

    def __init__(self, api: KubeApi, *, name: str = NAME, namespace: str = NAMESPACE) -> None:
        self.dropped: list[str] = []
        self._api = api
        self._store = ConfigMapStore(api, name=name, namespace=namespace)

    def read(self) -> dict[str, AttemptRecord]:
        """Return the attempts by key, without entries that cannot be read, such as manual changes.

        Raise ForbiddenError, UnreachableError, ApiError.
        """
        return read_attempts(self._store.read(), now_s=self._api.now_s())

    def update(self, key: str, change: Change) -> t.Optional[AttemptRecord]:
        """Write the entry that ``change`` returns for the newest entry of the key, and return it; None means no entry.

        Entries that are no longer needed are removed by the same write. Raise the errors of ``ConfigMapStore.update``.
        """
        dropped: list[str] = []

        def change_all(data: Mapping[str, str]) -> Changes:
            now_s = self._api.now_s()
            written = configmap_patch(data, key, change(read_attempts(data, now_s=now_s).get(key)), now_s=now_s)
            dropped[:] = written.dropped
            return written.changes

        after = self._store.update(change_all)
        self.dropped += dropped
        return read_attempts(after, now_s=self._api.now_s()).get(key)


def record_leftover_results(attempts: AttemptStore, snapshot: ClusterSnapshot, tasks: Container[str], *, now_s: float) -> None:
    """Record the result of each attempt in progress for a pod that needs no rescue any more and has no task here.

    ``tasks`` are the UIDs of the pods with a task of this program. An attempt for a pod that is still pending stays in progress, because
    its rescue continues. The attempt for a pod that is gone has failed if pods were evicted for it, and is cancelled otherwise. Raise
    KubeError.
    """
    left = {key: [uid for uid in entry.under_way if uid not in tasks] for key, entry in attempts.read().items()}
    if not any(left.values()):
        return
    bound = {pod.metadata.uid: f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in snapshot.pods if pod.spec.node_name}
    pending = {pod.metadata.uid for pod in snapshot.pods if not pod.spec.node_name}
    for key, uids in left.items():
        ended = [uid for uid in uids if uid not in pending]

        def change(entry: t.Optional[AttemptRecord], ended: list[str] = ended) -> t.Optional[AttemptRecord]:
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


def record_of(victim: Victim) -> VictimRecord:
    """Return the record of a victim."""
    metadata, reason = victim.pod.metadata, victim.reason
    return VictimRecord(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        node=victim.pod.spec.node_name,
        priority=victim.priority,
        grace_period=victim.grace_period_s,
        code=reason.code,
        text=reason.text,
    )


def victim_of(record: VictimRecord) -> Victim:
    """Return the victim of a record, with the parts of its pod that results and Events show."""
    metadata = ObjectMeta(name=record.name, namespace=record.namespace, uid=record.uid)
    pod = Pod(metadata=metadata, spec=PodSpec(node_name=record.node, priority=record.priority))
    return Victim(pod, record.priority, Reason(record.code, record.text), record.grace_period)
