# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Bound volumes and the nodes that reach them, and volumes to find or create (kubernetes ``plugins/volumebinding/binder.go``).

The reasons that reject all nodes are in ``pod_volumes``. Source of the choice of volumes: component-helpers
``storage/volume/pv_helpers.go`` (FindMatchingVolume).
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ...model.api.meta import Labels
from ...model.api.node import Node
from ...model.api.storage import (
    NO_PROVISIONER,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
    class_of_claim,
    in_tree_plugin,
)
from ...model.reason import PASSED, Reason, Reasons
from ...model.selectors.label_selector import matches
from ...model.values.quantity import parse_quantity, value
from ..storage.storage_index import StorageIndex

NODE_CONFLICT = Reason("volume_node_affinity", "node(s) didn't match PersistentVolume's node affinity")
NO_MATCH = Reason("volume_no_match", "node(s) didn't find available persistent volumes to bind")
NO_CAPACITY = Reason("volume_capacity", "node(s) did not have enough free storage")
NO_VOLUME = Reason("volume_missing", "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)")

_FILESYSTEM = "Filesystem"


class VolumeMatch(t.NamedTuple):
    """The result of a node for claims that are not bound yet.

    ``uncertain``: another choice between equal volumes may give another result.
    """

    reasons: Reasons
    uncertain: bool


_MATCHED = VolumeMatch(PASSED, uncertain=False)
_SELECTED_ELSEWHERE = VolumeMatch((NO_MATCH,), uncertain=False)


def pre_filter(
    bound: Iterable[PersistentVolume | None], delayed: list[PersistentVolumeClaim], storage: StorageIndex
) -> t.Callable[[Node], Reasons] | None:
    """Return the check that rejects nodes that cannot reach a bound volume, or where a claim finds no volume and none can be created.

    Return None if there is nothing to check. ``bound`` and ``delayed`` are those of ``PodVolumes``.
    """
    limited = [volume for volume in bound if volume is None or storage.nodes_of(volume) is not None]
    match = volume_matcher(delayed, storage)
    if not limited and match is None:
        return None

    def check(node: Node) -> Reasons:
        reached = _unreachable_reasons(limited, node, storage)
        if match is None:
            return reached
        found = match(node)
        offered = PASSED if found.uncertain else found.reasons
        # A missing volume is the last reason in the scheduler's list.
        return (*offered, *reached) if NO_VOLUME in reached else (*reached, *offered)

    return check


def _unreachable_reasons(bound: Iterable[PersistentVolume | None], node: Node, storage: StorageIndex) -> Reasons:
    for volume in bound:
        if volume is None:
            return (NO_VOLUME,)
        reaches = storage.nodes_of(volume)
        if reaches is not None and not uses_migrated_topology(volume, node, storage) and not reaches(node):
            return (NODE_CONFLICT,)
    return PASSED


def uses_migrated_topology(volume: PersistentVolume, node: Node, storage: StorageIndex) -> bool:
    """Return whether the scheduler uses other labels because a CSI driver has taken over the volume's plugin on the node.

    The scheduler translates zones to the driver's own topology (csi-translation-lib ``plugins/in_tree_volume.go``). A volume without zone
    or region labels is not changed.
    """
    plugin = in_tree_plugin(volume.spec)
    return bool(plugin) and plugin in storage.migrated_plugins(node.name) and storage.is_zonal(volume)


def volume_matcher(claims: list[PersistentVolumeClaim], storage: StorageIndex) -> t.Callable[[Node], VolumeMatch] | None:
    """Return a function that returns the result of a node for the claims. Return None if there are no claims."""
    if not claims:
        return None
    with_selected_node = [claim for claim in claims if SELECTED_NODE in (claim.metadata.annotations or {})]
    selected = {(claim.metadata.annotations or {})[SELECTED_NODE] for claim in with_selected_node}
    searches = [_ClaimSearch(claim, storage) for claim in claims if claim not in with_selected_node]
    # Volumes are matched to the smallest claim first.
    searches.sort(key=lambda search: search.size)
    provisioning = {id(claim): _provisioning_check(claim, storage) for claim in claims}

    def match(node: Node) -> VolumeMatch:
        if selected - {node.name}:
            return _SELECTED_ELSEWHERE
        missed, uncertain = _match(searches, node)
        for claim in (*with_selected_node, *missed):
            reasons = provisioning[id(claim)](node)
            if reasons:
                return VolumeMatch(reasons, uncertain)
        return VolumeMatch(PASSED, uncertain) if uncertain else _MATCHED

    return match


class _ClaimSearch:
    """The volumes that fit one claim."""

    def __init__(self, claim: PersistentVolumeClaim, storage: StorageIndex) -> None:
        self.claim = claim
        self.size = _size(claim)
        self._available = storage.available(class_of_claim(claim) or "")
        self._storage = storage
        key = (claim.metadata.namespace, claim.metadata.name)
        self._reserved = [
            volume for volume in self._available.reserved.get(key, ()) if self._is_for_claim(volume) and self._has_size_and_mode(volume)
        ]

    def on(self, node: Node, chosen: set[str]) -> tuple[list[PersistentVolume], bool]:
        """Return the smallest volumes for the claim on the node that are not chosen yet, and whether the choice is uncertain."""
        reserved = [volume for volume in self._reserved if volume.name not in chosen]
        if reserved:
            reachable = [volume for volume in reserved if self._reaches(volume, node)]
            return reachable[:1], 0 < len(reachable) < len(reserved)
        fitting = [volume for volume in self._available.reachable_from(node.labels) if volume.name not in chosen and self.fits(volume)]
        fitting = [volume for volume in fitting if self._reaches(volume, node)]
        smallest = min((_capacity(volume) for volume in fitting), default=0)
        return [volume for volume in fitting if _capacity(volume) == smallest], False

    def fits(self, volume: PersistentVolume) -> bool:
        """Return whether the volume fits the claim, whichever nodes can reach it."""
        spec = self.claim.spec
        if not self._has_size_and_mode(volume):
            return False
        if spec.selector is not None and not matches(spec.selector, volume.metadata.labels):
            return False
        return set(spec.access_modes or ()).issubset(volume.spec.access_modes or ())

    def _has_size_and_mode(self, volume: PersistentVolume) -> bool:
        """Return whether the volume is large enough and has the same mode and attributes class."""
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


def _match(searches: list[_ClaimSearch], node: Node) -> tuple[list[PersistentVolumeClaim], bool]:
    """Return the claims that find no volume on the node, and whether that depends on the choice between equal volumes."""
    chosen: set[str] = set()
    missed: list[PersistentVolumeClaim] = []
    uncertain = False
    for number, search in enumerate(searches):
        found, open_choice = search.on(node, chosen)
        if not found:
            missed.append(search.claim)
            continue
        uncertain = uncertain or open_choice
        if len(found) > 1:
            uncertain = uncertain or any(len({later.fits(volume) for volume in found}) > 1 for later in searches[number + 1 :])
        chosen.add(found[0].name)
    return missed, uncertain


def _provisioning_check(claim: PersistentVolumeClaim, storage: StorageIndex) -> t.Callable[[Node], Reasons]:
    """Return a check that returns reasons if no volume for the claim can be created on a node."""
    storage_class: StorageClass = storage.classes[class_of_claim(claim) or ""]
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return lambda _node: (NO_MATCH,)
    asked = (claim.spec.resources.requests or {}).get("storage")
    checked = storage_class.provisioner in storage.capacity_drivers and asked is not None
    class_capacity = storage.capacity(storage_class.metadata.name)
    size = value(_size(claim))

    def provision(node: Node) -> Reasons:
        if not _is_allowed_topology(storage_class.allowed_topologies or (), node.labels):
            return (NO_MATCH,)
        return (NO_CAPACITY,) if checked and not class_capacity.has(size, node.labels) else PASSED

    return provision


def _is_allowed_topology(terms: tuple[TopologySelectorTerm, ...], labels: Labels) -> bool:
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
