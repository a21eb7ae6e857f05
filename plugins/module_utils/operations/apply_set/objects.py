# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The objects of an apply set as plain values: their labels, their names, and what of them is compared and shown.

An apply set is the objects of one program that are applied, pruned and deleted together (KEP-3659). Its members are found by labels.
"""

from __future__ import annotations

import typing as t
from collections.abc import Collection, Iterable, Iterator

Json = dict[str, t.Any]

MANAGED_BY = "app.kubernetes.io/managed-by"
COLLECTION = "onprem.kube_scheduling"
NAME = "app.kubernetes.io/name"
COMPONENT = "app.kubernetes.io/component"
PART_OF = "app.kubernetes.io/part-of"
PROJECT = "kube-scheduling"
HIDDEN = "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"
OF_SERVER = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")
"""The metadata that the API server writes."""
DATA_KINDS = ("PersistentVolumeClaim", "Secret")
"""These kinds keep a namespace also if their objects have the labels of this collection, which makes none of them."""
IN_EVERY_NAMESPACE = (("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt"))


class Reference(t.NamedTuple):
    """An object, named. ``namespace`` is empty for an object of the whole cluster."""

    api_version: str
    kind: str
    namespace: str
    name: str

    @property
    def text(self) -> str:
        """Return the object in the words of a message."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def reference_of(item: Json) -> Reference:
    """Return the reference of an object."""
    metadata = item["metadata"]
    return Reference(str(item["apiVersion"]), str(item["kind"]), str(metadata.get("namespace") or ""), str(metadata["name"]))


def kind_of(item: Json) -> str:
    """Return the version and the kind of an object, such as ``apps/v1/Deployment``."""
    return f"{item['apiVersion']}/{item['kind']}"


def set_labels(name: str, component: str) -> dict[str, str]:
    """Return the labels of the members of a set. Pods have them, too, so that selectors find the pods."""
    return {NAME: name, COMPONENT: component, PART_OF: PROJECT, MANAGED_BY: COLLECTION}


def pod_selector(name: str, component: str) -> dict[str, str]:
    """Return the labels by which selectors find the pods. They never change."""
    return {NAME: name, COMPONENT: component}


def member_selector(name: str) -> str:
    """Return the label selector of the members of a set."""
    return f"{MANAGED_BY}={COLLECTION},{PART_OF}={PROJECT},{NAME}={name}"


def labels_of(item: Json) -> dict[str, str]:
    """Return the labels of an object."""
    return item["metadata"].get("labels") or {}


def is_managed(item: Json) -> bool:
    """Return whether this collection made the object."""
    return labels_of(item).get(MANAGED_BY) == COLLECTION


def is_member(item: Json, name: str) -> bool:
    """Return whether the object is of the set."""
    labels = labels_of(item)
    return is_managed(item) and labels.get(PART_OF) == PROJECT and labels.get(NAME) == name


def namespace_object(name: str) -> Json:
    """Return the namespace of the programs. Several sets share it, so it has the label of none."""
    labels = {PART_OF: PROJECT, MANAGED_BY: COLLECTION, "pod-security.kubernetes.io/enforce": "restricted"}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def keeps_namespace(item: Json, components: Collection[str]) -> bool:
    """Return whether the object is of others, or has data. ``components``: the components whose objects do not keep the namespace."""
    labels = labels_of(item)
    is_own = is_managed(item) and labels.get(PART_OF) == PROJECT and labels.get(NAME, "").startswith(f"{PROJECT}-")
    is_removed = is_own and labels.get(COMPONENT) in components and item["kind"] not in DATA_KINDS
    return not is_removed and (item["kind"], item["metadata"]["name"]) not in IN_EVERY_NAMESPACE


def comparable(item: Json) -> Json:
    """Return the object without its status and without what the API server writes."""
    metadata = {key: value for key, value in item["metadata"].items() if key not in OF_SERVER}
    return {**{key: value for key, value in item.items() if key != "status"}, "metadata": metadata}


def shown(item: t.Optional[Json]) -> Json:
    """Return the object for a diff. The data of a Secret are not shown, and where they differ is not said."""
    if item is None:
        return {}
    seen = comparable(item)
    if item["kind"] == "Secret":
        seen |= {key: HIDDEN for key in ("data", "stringData") if key in seen}
        seen["metadata"].pop("annotations", None)
    return seen


def difference(name: str, before: t.Any, after: t.Any) -> Json:
    """Return an entry of the diff of a module."""
    return {"before_header": name, "after_header": name, "before": before, "after": after}


def different_paths(one: t.Any, other: t.Any, path: str = "") -> Iterator[str]:
    """Yield the paths of the fields that differ, such as ``spec.suspend``."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from different_paths(one.get(key), other.get(key), f"{path}.{key}" if path else key)
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for number, (first, second) in enumerate(zip(one, other)):
            yield from different_paths(first, second, f"{path}[{number}]")
    elif one != other:
        yield path


def mounted_config_maps(items: Iterable[Json]) -> list[str]:
    """Return the names of the ConfigMaps that pods of these Deployments or ReplicaSets mount."""
    volumes = [volume for item in items for volume in item["spec"]["template"]["spec"].get("volumes") or ()]
    return [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
