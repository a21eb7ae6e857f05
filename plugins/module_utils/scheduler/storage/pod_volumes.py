# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The claims and volumes of a pod, and the reasons why they reject every node before any node is checked.

Source: the PreFilter of kubernetes ``plugins/volumerestrictions``, ``plugins/volumebinding`` and ``plugins/volumezone``, in that order.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...model.api.pod import Pod
from ...model.api.storage import (
    BIND_COMPLETED,
    MIGRATED_DRIVERS,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    class_of_claim,
    in_tree_plugin,
)
from ...model.api.volume import Volume
from ...model.interning import binds_to_nodes
from ...model.reason import PASSED, Reason, Reasons
from .storage_index import UNKNOWN_HANDLE, StorageIndex

UNBOUND = Reason("claim_unbound", "pod has unbound immediate PersistentVolumeClaims")
TO_BE_BOUND = Reason("claim_to_be_bound", "a claim that will be made for the pod is bound before its node is chosen")
DEFAULT_CLASS = Reason("default_storage_class", "a claim that will be made for the pod gets one of several default storage classes")


@dataclass
class PodVolumes:
    """The resolved volumes of a pod.

    ``rejected``: the reasons that reject every node. ``bound``: the volumes of its bound claims; an entry is None if the volume does not
    exist. ``delayed``: the claims that are bound after a node is chosen. ``zoned``: the volumes whose zone counts. ``attachable``: driver
    and handle of the volumes that count for the limits of nodes. ``single_pod_claims``: namespace and name of its claims that only one pod
    at a time may use. ``disks``: the volumes that pods on one node may not share. ``unknowns``: the reasons why the results of all nodes
    are uncertain.
    """

    rejected: Reasons = PASSED
    bound: list[t.Optional[PersistentVolume]] = field(default_factory=list)
    delayed: list[PersistentVolumeClaim] = field(default_factory=list)
    zoned: list[PersistentVolume] = field(default_factory=list)
    attachable: set[tuple[str, str]] = field(default_factory=set)
    single_pod_claims: list[tuple[str, str]] = field(default_factory=list)
    disks: list[Volume] = field(default_factory=list)
    unknowns: Reasons = PASSED


def resolve_volumes(pod: Pod, index: StorageIndex) -> PodVolumes | None:
    """Return the resolved volumes of the pod. Return None if no volume binds the pod to nodes."""
    volumes = [volume for volume in pod.spec.volumes or () if binds_to_nodes(volume)]
    return _Resolver(pod, index).resolve(volumes) if volumes else None


def disks_of(volume: Volume) -> tuple[t.Any, ...]:
    """Return the sources of the volume that pods on one node may not share. A source that the volume does not have is None."""
    return volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.iscsi, volume.rbd


def unreadable_reason(resource: str) -> Reason:
    """Return the reason for a resource that could not be read."""
    return Reason("unreadable", f"{resource} could not be read")


class _RejectedEverywhere(Exception):
    """The pod fits on no node, for this reason."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.reason = Reason(code, text)


class _PodClaim(t.NamedTuple):
    """A claim of the pod, as it is or as it will be created; ``ephemeral``: it is created and deleted with the pod."""

    claim: PersistentVolumeClaim
    exists: bool
    ephemeral: bool


class _Resolver:
    def __init__(self, pod: Pod, index: StorageIndex) -> None:
        self._pod = pod
        self._index = index
        self._namespace = pod.metadata.namespace
        # A pod without a uid is one that a template would create. Its own claims are not created yet.
        self._is_new = not pod.metadata.uid
        self._result = PodVolumes()
        self._unknowns: dict[Reason, None] = {}

    def resolve(self, volumes: list[Volume]) -> PodVolumes:
        result = self._result
        try:
            self._resolve(volumes)
        except _RejectedEverywhere as rejected:
            result.rejected = (rejected.reason,)
        result.unknowns = tuple(self._unknowns)
        return result

    def _resolve(self, volumes: list[Volume]) -> None:
        self._add_inline_volumes(volumes)
        mounted = [volume for volume in volumes if volume.persistent_volume_claim is not None or volume.ephemeral is not None]
        if mounted and not self._index.was_read:
            self._add_unknown(unreadable_reason("volumes"))
            return
        claims = self._existing_claims([(volume, self._find(volume)) for volume in mounted])
        self._add_unreadable(claims)
        if any(self._is_immediate(found) for found in claims):
            raise _RejectedEverywhere(UNBOUND.code, UNBOUND.text)
        for found in claims:
            self._add_claim(found)

    def _add_unknown(self, reason: Reason) -> None:
        self._unknowns[reason] = None

    def _add_unreadable(self, claims: list[_PodClaim]) -> None:
        needed = [("csinodes", ""), ("volumeattachments", "")] if claims else []
        for found in claims:
            spec = found.claim.spec
            needed.append(("persistentvolumes", spec.volume_name))
            if not spec.volume_name:
                needed += [("storageclasses", class_of_claim(found.claim) or ""), ("csidrivers", ""), ("csistoragecapacities", "")]
        for resource, name in needed:
            if self._index.unreadable(resource, name):
                self._add_unknown(unreadable_reason(resource))

    def _add_inline_volumes(self, volumes: list[Volume]) -> None:
        for volume in volumes:
            if any(disk is not None for disk in disks_of(volume)):
                self._result.disks.append(volume)
            plugin = in_tree_plugin(volume)
            if plugin:
                self._result.attachable.add((MIGRATED_DRIVERS[plugin], UNKNOWN_HANDLE))

    # --- claims -------------------------------------------------------------------------------------------------------

    def _find(self, volume: Volume) -> _PodClaim | None:
        """Return the volume's claim. Return None if there is none and none will be created."""
        source, ephemeral = volume.persistent_volume_claim, volume.ephemeral
        if source is not None:
            name, template = source.claim_name, source.claim_template
        else:
            name = f"{self._pod.metadata.name}-{volume.name}"
            template = ephemeral.volume_claim_template if ephemeral is not None and self._is_new else None
        claim = self._index.claims.get((self._namespace, name)) if source is not None or not self._is_new else None
        if claim is not None:
            return _PodClaim(claim, exists=True, ephemeral=source is None)
        if template is None:
            return None
        if source is not None and not self._index.claims_known(self._namespace, name):
            return None
        made = self._index.claim_from_template(self._namespace, name, template)
        if made.spec != template.spec and len(self._index.default_classes()) > 1:
            self._add_unknown(DEFAULT_CLASS)
        return _PodClaim(made, exists=False, ephemeral=source is None)

    def _claim_name(self, volume: Volume) -> str:
        source = volume.persistent_volume_claim
        return source.claim_name if source is not None else f"{self._pod.metadata.name}-{volume.name}"

    def _existing_claims(self, found: list[tuple[Volume, _PodClaim | None]]) -> list[_PodClaim]:
        """Return the claims that exist or will be created. All named claims must exist before any claim is checked."""
        known = {volume.name: self._index.claims_known(self._namespace, self._claim_name(volume)) for volume, _claim in found}
        if any(claim is None and not known[volume.name] for volume, claim in found):
            self._add_unknown(unreadable_reason("persistentvolumeclaims"))
        for volume, claim in found:
            if volume.persistent_volume_claim is None:
                continue
            if claim is None and known[volume.name]:
                name = volume.persistent_volume_claim.claim_name
                raise _RejectedEverywhere("claim_not_found", f'persistentvolumeclaim "{name}" not found')
            if claim is not None and "ReadWriteOncePod" in (claim.claim.spec.access_modes or ()):
                self._result.single_pod_claims.append((self._namespace, claim.claim.metadata.name))
        claims: list[_PodClaim] = []
        for volume, claim in found:
            if claim is not None:
                self._check_claim(claim)
                claims.append(claim)
            elif known[volume.name]:
                name = self._claim_name(volume)
                text = f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
                raise _RejectedEverywhere("ephemeral_claim_not_found", text)
        return claims

    def _check_claim(self, found: _PodClaim) -> None:
        """Raise _RejectedEverywhere if the claim is lost, is terminating, or is an ephemeral claim of another pod."""
        claim = found.claim
        name = claim.metadata.name
        if claim.status.phase == "Lost":
            lost = claim.spec.volume_name
            raise _RejectedEverywhere("claim_lost", f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{lost}"')
        if claim.metadata.deletion_timestamp is not None:
            raise _RejectedEverywhere("claim_terminating", f'persistentvolumeclaim "{name}" is being deleted')
        if found.ephemeral and found.exists:
            owner = claim.metadata.controller
            if owner is None or owner.uid != self._pod.metadata.uid:
                whole = f"PVC {self._namespace}/{name} was not created for pod {self._namespace}/{self._pod.metadata.name}"
                raise _RejectedEverywhere("claim_of_other_pod", f"{whole} (pod is not owner)")

    def _is_immediate(self, found: _PodClaim) -> bool:
        """Return whether the claim exists and should be bound already."""
        claim = found.claim
        if not found.exists or _fully_bound(claim):
            return False
        return not self._is_delayed(claim) and not self._class_unreadable(claim)

    def _class_unreadable(self, claim: PersistentVolumeClaim) -> bool:
        name = class_of_claim(claim)
        return not claim.spec.volume_name and bool(name) and self._index.unreadable("storageclasses", name or "")

    def _is_delayed(self, claim: PersistentVolumeClaim) -> bool:
        storage_class = self._index.classes.get(class_of_claim(claim) or "")
        waits = storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        return waits and not claim.spec.volume_name

    def _add_claim(self, found: _PodClaim) -> None:
        claim, result = found.claim, self._result
        attachment = self._index.attachment(claim)
        if attachment is not None:
            result.attachable.add(attachment)
        if _fully_bound(claim):
            self._add_bound_claim(found)
        elif self._is_delayed(claim):
            if not self._index.unreadable("persistentvolumes"):
                result.delayed.append(claim)
        elif not found.exists and not self._class_unreadable(claim):
            self._add_unknown(TO_BE_BOUND)

    def _add_bound_claim(self, found: _PodClaim) -> None:
        volume = self._index.volumes.get(found.claim.spec.volume_name)
        if volume is None and self._index.unreadable("persistentvolumes", found.claim.spec.volume_name):
            return
        if volume is None and not found.ephemeral:
            raise _RejectedEverywhere("volume_not_found", f'persistentvolume "{found.claim.spec.volume_name}" not found')
        self._result.bound.append(volume)
        if volume is not None and not found.ephemeral:
            self._result.zoned.append(volume)


def _fully_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in (claim.metadata.annotations or {})
