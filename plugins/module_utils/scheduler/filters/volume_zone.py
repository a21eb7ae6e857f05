# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Zone and region labels of bound volumes (kubernetes ``plugins/volumezone/volume_zone.go``)."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ...model.api.node import Node
from ...model.api.storage import PersistentVolume
from ...model.reason import PASSED, Reason, Reasons
from ..storage.storage_index import BETA_LABELS, ZONE_LABELS

OTHER_ZONE: Reasons = (Reason("volume_zone", "node(s) had no available volume zone"),)

_SEPARATOR = "__"


def pre_filter(zoned: Iterable[PersistentVolume]) -> t.Callable[[Node], Reasons] | None:
    """Return the check that rejects nodes in another zone or region than one of these volumes. Return None if they have no such labels.

    A node without any such label is never rejected.
    """
    wanted: list[tuple[str, frozenset[str]]] = []
    for volume in zoned:
        labels = volume.metadata.labels or {}
        wanted += [(key, zones) for key in ZONE_LABELS if key in labels for zones in _zones(labels[key])]
    if not wanted:
        return None

    def check(node: Node) -> Reasons:
        labels = node.labels
        if not any(key in labels for key in ZONE_LABELS):
            return PASSED
        for key, zones in wanted:
            zone = labels.get(key)
            if zone is None:
                zone = labels.get(BETA_LABELS.get(key, key))
            if zone not in zones:
                return OTHER_ZONE
        return PASSED

    return check


def _zones(text: str) -> t.Iterator[frozenset[str]]:
    """Yield the zones of a label. Yield nothing if one of them is empty: such a label does not count."""
    zones = frozenset(zone.strip() for zone in text.split(_SEPARATOR))
    if "" not in zones:
        yield zones
