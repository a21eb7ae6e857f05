# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Bound volumes that reach a node, and volumes that could be found or made there (kubernetes ``plugins/volumebinding/binder.go``).

What closes all nodes at once is in ``pod_volumes``. Source of the choice: component-helpers ``storage/volume/pv_helpers.go``
(FindMatchingVolume).
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ...model.api.meta import Labels
from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.api.storage import (
    NO_PROVISIONER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
    class_of_claim,
)
from ...model.reason import PASSED, Reason, Reasons
from ...model.selectors.label_selector import matches
from ...model.values.quantity import parse_quantity, value
from ..node_info import NodeInfo
from ..placement import Placement
from ..volume_index import VolumeIndex, in_tree_plugin

NODE_CONFLICT = Reason("volume_node_affinity", "node(s) didn't match PersistentVolume's node affinity")
NO_MATCH = Reason("volume_no_match", "node(s) didn't find available persistent volumes to bind")
NO_ROOM = Reason("volume_capacity", "node(s) did not have enough free storage")
NO_VOLUME = Reason("volume_missing", "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")

_FILESYSTEM = "Filesystem"


class Offer(t.NamedTuple):
    """What a node has for claims that are not bound yet. ``unsure``: another choice between equal volumes might come to something else."""

    reasons: Reasons
    unsure: bool


_ENOUGH = Offer(PASSED, unsure=False)
_ELSEWHERE = Offer((NO_MATCH,), unsure=False)


def prepare(pod: Pod, placement: Placement) -> t.Callable[[NodeInfo], Reasons] | None:
    """Rejects nodes from which a bound volume cannot be reached, or where a claim would find no volume and none can be made."""
    volumes = placement.volumes_of(pod)
    if volumes is None:
        return None
    storage = placement.storage
    bound = [volume for _claim, volume in volumes.bound if volume is None or storage.nodes_of(volume) is not None]
    offer = prepare_offer(volumes.delayed, storage)
    if not bound and offer is None:
        return None

    def check(info: NodeInfo) -> Reasons:
        reached = _reached(bound, info.node, storage)
        if offer is None:
            return reached
        found = offer(info.node)
        offered = PASSED if found.unsure else found.reasons
        # A missing volume comes last in the scheduler's list.
        return (*offered, *reached) if NO_VOLUME in reached else (*reached, *offered)

    return check


def _reached(bound: Iterable[PersistentVolume | None], node: Node, storage: VolumeIndex) -> Reasons:
    for volume in bound:
        if volume is None:
            return (NO_VOLUME,)
        reaches = storage.nodes_of(volume)
        if reaches is not None and not is_translated(volume, node, storage) and not reaches(node):
            return (NODE_CONFLICT,)
    return PASSED


def is_translated(volume: PersistentVolume, node: Node, storage: VolumeIndex) -> bool:
    """The scheduler judges by other labels, because a CSI driver has taken the volume's plugin over on the node.

    It makes the driver's own topology of zones (csi-translation-lib ``plugins/in_tree_volume.go``); a volume that does not speak of
    zones stays as it is.
    """
    plugin = in_tree_plugin(volume.spec)
    return bool(plugin) and plugin in storage.migrated_plugins(node.name) and storage.is_zonal(volume)


def prepare_offer(claims: list[PersistentVolumeClaim], storage: VolumeIndex) -> t.Callable[[Node], Offer] | None:
    """What nodes have for the claims; None where there are none."""
    if not claims:
        return None
    promised = [claim for claim in claims if SELECTED_NODE in (claim.metadata.annotations or {})]
    selected = {(claim.metadata.annotations or {})[SELECTED_NODE] for claim in promised}
    searches = [_Search(claim, storage) for claim in claims if claim not in promised]
    # The smallest claim chooses first.
    searches.sort(key=lambda search: search.size)
    makers = {id(claim): _prepare_provision(claim, storage) for claim in claims}

    def offer(node: Node) -> Offer:
        if selected - {node.name}:
            return _ELSEWHERE
        missed, unsure = _match(searches, node)
        for claim in (*promised, *missed):
            reasons = makers[id(claim)](node)
            if reasons:
                return Offer(reasons, unsure)
        return Offer(PASSED, unsure) if unsure else _ENOUGH

    return offer


class _Search:
    """The volumes that would do for one claim."""

    def __init__(self, claim: PersistentVolumeClaim, storage: VolumeIndex) -> None:
        self.claim = claim
        self.size = _size(claim)
        self._free = storage.free(class_of_claim(claim) or "")
        self._storage = storage
        key = (claim.metadata.namespace, claim.metadata.name)
        self._reserved = [volume for volume in self._free.reserved.get(key, ()) if self._is_for_claim(volume) and self._is_alike(volume)]

    def on(self, node: Node, chosen: set[str]) -> tuple[list[PersistentVolume], bool]:
        """The smallest volumes for the claim on the node that are not chosen yet; and whether that is open."""
        reserved = [volume for volume in self._reserved if volume.name not in chosen]
        if reserved:
            reachable = [volume for volume in reserved if self._reaches(volume, node)]
            return reachable[:1], 0 < len(reachable) < len(reserved)
        fitting = [volume for volume in self._free.near(node.labels) if volume.name not in chosen and self.fits(volume)]
        fitting = [volume for volume in fitting if self._reaches(volume, node)]
        smallest = min((_capacity(volume) for volume in fitting), default=0)
        return [volume for volume in fitting if _capacity(volume) == smallest], False

    def fits(self, volume: PersistentVolume) -> bool:
        """Whether the volume would do, wherever it is."""
        spec = self.claim.spec
        if not self._is_alike(volume):
            return False
        if spec.selector is not None and not matches(spec.selector, volume.metadata.labels):
            return False
        return set(spec.access_modes or ()).issubset(volume.spec.access_modes or ())

    def _is_alike(self, volume: PersistentVolume) -> bool:
        """Big enough, and of the same mode and attributes."""
        spec = self.claim.spec
        if _capacity(volume) < self.size or (volume.spec.volume_mode or _FILESYSTEM) != (spec.volume_mode or _FILESYSTEM):
            return False
        return (volume.spec.volume_attributes_class_name or "") == (spec.volume_attributes_class_name or "")

    def _is_for_claim(self, volume: PersistentVolume) -> bool:
        reference = volume.spec.claim_ref
        return reference is not None and reference.uid in ("", self.claim.metadata.uid)

    def _reaches(self, volume: PersistentVolume, node: Node) -> bool:
        reaches = self._storage.nodes_of(volume)
        return reaches is None or reaches(node)


def _match(searches: list[_Search], node: Node) -> tuple[list[PersistentVolumeClaim], bool]:
    """The claims that find no volume on the node, and whether that depends on the choice between equal ones."""
    chosen: set[str] = set()
    missed: list[PersistentVolumeClaim] = []
    unsure = False
    for number, search in enumerate(searches):
        found, open_choice = search.on(node, chosen)
        if not found:
            missed.append(search.claim)
            continue
        unsure = unsure or open_choice
        if len(found) > 1:
            unsure = unsure or any(len({later.fits(volume) for volume in found}) > 1 for later in searches[number + 1 :])
        chosen.add(found[0].name)
    return missed, unsure


def _prepare_provision(claim: PersistentVolumeClaim, storage: VolumeIndex) -> t.Callable[[Node], Reasons]:
    """Whether a volume for the claim can be made on a node."""
    storage_class: StorageClass = storage.classes[class_of_claim(claim) or ""]
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return lambda _node: (NO_MATCH,)
    asked = (claim.spec.resources.requests or {}).get("storage")
    checked = storage_class.provisioner in storage.capacity_drivers and asked is not None
    room = storage.room(storage_class.metadata.name)
    size = value(_size(claim))

    def provision(node: Node) -> Reasons:
        if not _allowed(storage_class.allowed_topologies or (), node.labels):
            return (NO_MATCH,)
        return (NO_ROOM,) if checked and not room.has(size, node.labels) else PASSED

    return provision


def _allowed(terms: tuple[TopologySelectorTerm, ...], labels: Labels) -> bool:
    if not terms:
        return True
    return any(
        term.match_label_expressions
        and all(labels.get(expression.key) in (expression.values or ()) for expression in term.match_label_expressions)
        for term in terms
    )


def _size(claim: PersistentVolumeClaim) -> int:
    return parse_quantity((claim.spec.resources.requests or {}).get("storage", "0"))


def _capacity(volume: PersistentVolume) -> int:
    return parse_quantity((volume.spec.capacity or {}).get("storage", "0"))
