# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The objects in a namespace that prevent its deletion."""

from __future__ import annotations

from collections.abc import Collection

from ...model.messages import listed
from .discovery import NamedObject, NamespaceObjects
from .objects import COLLECTION, COMPONENT, MANAGED_BY, NAME, PART_OF, PROJECT

IGNORED_KINDS = ("Binding", "Endpoints", "EndpointSlice", "Event", "LocalSubjectAccessReview", "PodMetrics")
"""These kinds do not keep a namespace: the cluster itself makes their objects, or they have none that can be listed."""
DATA_KINDS = ("PersistentVolumeClaim", "Secret")
"""These kinds keep a namespace also if their objects have the labels of this collection, which makes none of them."""
IN_EVERY_NAMESPACE = (("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt"))
MOST_NAMED = 20
MOST_LETTERS = 200


def why_it_stays(namespace: str, found: NamespaceObjects, components: Collection[str]) -> str:
    """Return the sentence about objects of others, or an empty text if there is none. A kind that cannot be read keeps the namespace.

    ``components``: the components whose objects do not keep it.
    """
    reasons = [f"{item.kind}/{item.name}" for item in found.objects if _keeps(item, components)]
    reasons += [f"{item.kind} ({' '.join(item.message.split())[:MOST_LETTERS]})" for item in found.unreadable]
    if not reasons:
        return ""
    return f"Namespace {namespace} is not deleted, because it has objects of others: {listed(reasons, MOST_NAMED)}"


def _keeps(item: NamedObject, components: Collection[str]) -> bool:
    labels = item.labels
    is_own = (
        labels.get(MANAGED_BY) == COLLECTION
        and labels.get(PART_OF) == PROJECT
        and labels.get(NAME, "").startswith(f"{PROJECT}-")
        and labels.get(COMPONENT) in components
    )
    return (item.kind, item.name) not in IN_EVERY_NAMESPACE and (not is_own or item.kind in DATA_KINDS)
