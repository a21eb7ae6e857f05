# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The storage of a snapshot, indexed for the volume filters. It is built when the first pod with volumes is checked."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping

from ...model.api.meta import Labels, ObjectMeta
from ...model.api.node import Node, NodeSelector
from ...model.api.pod import Pod
from ...model.api.storage import (
    DEFAULT_CLASS_ANNOTATIONS,
    MIGRATED_DRIVERS,
    MIGRATED_PLUGINS,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Storage,
    StorageClass,
    class_of_claim,
    class_of_volume,
    in_tree_plugin,
)
from ...model.api.volume import VolumeClaimTemplate
from ...model.codec import replace
from ...model.selectors.label_selector import matches
from ...model.selectors.node_selector import compile_selector
from ...model.snapshot import ClusterSnapshot
from ...model.values.quantity import parse_quantity, value

_UNCOUNTED_PROVISIONERS = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")
_KINDS = {
    "persistentvolumes": "PersistentVolume",
    "storageclasses": "StorageClass",
    "csinodes": "CSINode",
    "csidrivers": "CSIDriver",
    "csistoragecapacities": "CSIStorageCapacity",
    "volumeattachments": "VolumeAttachment",
}
# The prefix of the handles of volumes that do not exist yet. No driver has such a handle.
_NOT_YET = "\0"

BETA_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
ZONE_LABELS = (*BETA_LABELS, *BETA_LABELS.values())

UNKNOWN_HANDLE = ""
"""The handle of a volume of an in-tree plugin that a CSI driver has taken over. The real handle is not computed here."""


class HasPods(t.Protocol):
    """The pods of a node: a ``NodeInfo``, which also stores the result of ``StorageIndex.attached``."""

    attached: AttachedVolumes | None

    @property
    def pods(self) -> Mapping[str, tuple[Pod, t.Any]]:
        """The pods by their keys."""


class StorageIndex:
    """The storage objects that the volume filters use; shared by all forks of a cluster state.

    ``info`` returns a node with the pods that the snapshot has there.
    """

    def __init__(self, snapshot: ClusterSnapshot, info: t.Callable[[str], HasPods]) -> None:
        storage = snapshot.storage or Storage()
        self.was_read = snapshot.storage is not None
        self.storage = storage
        self.claims = snapshot.claims
        self.volumes = {volume.name: volume for volume in storage.volumes}
        self.classes = {storage_class.metadata.name: storage_class for storage_class in storage.classes}
        # If the published capacities could not be read, no driver counts as one that publishes them. ``pod_volumes`` then adds an unknown
        # reason.
        self._snapshot = snapshot
        readable = not self.unreadable("csistoragecapacities")
        self.capacity_drivers = frozenset(driver.metadata.name for driver in storage.drivers if readable and driver.spec.storage_capacity)
        self.limits = dict(_limits(storage))
        self.limited_drivers = frozenset(name for limits in self.limits.values() for name in limits)
        self._info = info
        self._nodes_of_volume: dict[str, t.Callable[[Node], bool] | None] = {}
        self._zonal: dict[str, bool] = {}
        self._available: dict[str, AvailableVolumes] | None = None
        self._capacity: dict[str, StorageClassCapacity] | None = None
        self._attached_without_pod: dict[str, frozenset[tuple[str, str]]] | None = None
        self._migrated: dict[str, frozenset[str]] | None = None
        self._users: dict[tuple[str, str], frozenset[str]] | None = None

    # --- claims and classes -------------------------------------------------------------------------------------------

    def claims_known(self, namespace: str, name: str) -> bool:
        """Return whether a claim of this name that is not in the snapshot is known not to exist."""
        known = self.storage.claim_namespaces
        if self._snapshot.undecodable_named("PersistentVolumeClaim", namespace, name) is not None:
            return False
        return known is None or namespace in known

    def unreadable(self, resource: str, name: str = "") -> bool:
        """Return whether some objects of the resource could not be read. With ``name``: whether that object may be one of them."""
        if resource in self.storage.unreadable:
            return True
        kind = _KINDS.get(resource, "")
        return self._snapshot.undecodable_named(kind, "", name) is not None if name else bool(self._snapshot.undecodable_of(kind))

    def default_classes(self) -> list[StorageClass]:
        """Return the classes that are the default for claims without a class. Usually there is one."""
        return [
            storage_class
            for storage_class in self.storage.classes
            if any((storage_class.metadata.annotations or {}).get(key) == "true" for key in DEFAULT_CLASS_ANNOTATIONS)
        ]

    def claim_from_template(self, namespace: str, name: str, template: VolumeClaimTemplate) -> PersistentVolumeClaim:
        """Return the claim that will be created from the template, with the class that admission sets."""
        metadata = ObjectMeta(name=name, namespace=namespace, annotations=template.metadata.annotations)
        claim = PersistentVolumeClaim(metadata=metadata, spec=template.spec)
        if class_of_claim(claim) is not None:
            return claim
        defaults = self.default_classes()
        return replace(claim, spec=replace(claim.spec, storage_class_name=defaults[0].metadata.name if defaults else ""))

    def users(self, claim: tuple[str, str]) -> frozenset[str]:
        """Return the keys of the snapshot's pods that use the claim, except as an ephemeral volume.

        ``claim``: namespace and name.
        """
        if self._users is None:
            users: dict[tuple[str, str], set[str]] = {}
            for name in self._snapshot.pods_by_node:
                for key, (pod, _load) in self._info(name).pods.items() if name in self._snapshot.nodes else ():
                    for used in claims_used(pod):
                        users.setdefault(used, set()).add(key)
            self._users = {used: frozenset(keys) for used, keys in users.items()}
        return self._users.get(claim, frozenset())

    # --- volumes ------------------------------------------------------------------------------------------------------

    def nodes_of(self, volume: PersistentVolume) -> t.Callable[[Node], bool] | None:
        """Return a function that returns whether the volume can be reached from a node. Return None if all nodes can reach it."""
        if volume.name not in self._nodes_of_volume:
            self._nodes_of_volume[volume.name] = _nodes_of(volume)
        return self._nodes_of_volume[volume.name]

    def is_zonal(self, volume: PersistentVolume) -> bool:
        """Return whether the volume's labels or its node affinity contain a zone or region label."""
        if volume.name not in self._zonal:
            affinity = volume.spec.node_affinity
            terms = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ()
            keys = {expression.key for term in terms for expression in term.match_expressions or ()}
            self._zonal[volume.name] = not keys.union(volume.metadata.labels or ()).isdisjoint(ZONE_LABELS)
        return self._zonal[volume.name]

    def available(self, class_name: str) -> AvailableVolumes:
        """Return the volumes of the class that can be bound to a claim."""
        if self._available is None:
            self._available = {}
            for volume in self.storage.volumes:
                self._available.setdefault(class_of_volume(volume), AvailableVolumes()).add(volume)
        return self._available.get(class_name) or AvailableVolumes()

    def has_competing_volumes(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether several volumes are reserved for the claim."""
        reserved = self.available(class_of_claim(claim) or "").reserved
        return len(reserved.get((claim.metadata.namespace, claim.metadata.name), ())) > 1

    def capacity(self, class_name: str) -> StorageClassCapacity:
        """Return the capacity that drivers publish for the class."""
        if self._capacity is None:
            self._capacity = {}
            for capacity in self.storage.capacities:
                self._capacity.setdefault(capacity.storage_class_name, StorageClassCapacity()).add(capacity)
        return self._capacity.get(class_name) or StorageClassCapacity()

    def migrated_plugins(self, node_name: str) -> frozenset[str]:
        """Return the in-tree plugins that CSI drivers have taken over on the node."""
        if self._migrated is None:
            annotations = ((node.metadata.name, (node.metadata.annotations or {}).get(MIGRATED_PLUGINS)) for node in self.storage.nodes)
            self._migrated = {name: frozenset(text.split(",")) for name, text in annotations if text}
        return self._migrated.get(node_name, frozenset())

    # --- limits -------------------------------------------------------------------------------------------------------

    def attached(self, info: HasPods) -> AttachedVolumes:
        """Return the CSI volumes of the pods on the node."""
        if info.attached is None:
            volumes: set[tuple[str, str]] = set()
            uncertain: set[str] = set()
            for pod, _load in info.pods.values():
                if pod.spec.volumes:
                    self._attach(pod, volumes, uncertain)
            info.attached = AttachedVolumes(frozenset(volumes), frozenset(uncertain))
        return info.attached

    def attached_without_pod(self, node_name: str) -> frozenset[tuple[str, str]]:
        """Return the volumes that are attached to the node and that no pod of the snapshot uses there.

        The volumes of the snapshot's pods are not among them, so they count as detached when these pods are removed.
        """
        if self._attached_without_pod is None:
            found: dict[str, set[tuple[str, str]]] = {}
            for attachment in self.storage.attachments:
                spec = attachment.spec
                volume = self.volumes.get(spec.source.persistent_volume_name or "")
                if spec.attacher and volume is not None and volume.spec.csi is not None and spec.node_name in self._snapshot.nodes:
                    found.setdefault(spec.node_name, set()).add((spec.attacher, volume.spec.csi.volume_handle))
            self._attached_without_pod = {
                name: frozenset(volumes - self.attached(self._info(name)).volumes) for name, volumes in found.items()
            }
        return self._attached_without_pod.get(node_name, frozenset())

    def attachment(self, claim: PersistentVolumeClaim) -> tuple[str, str] | None:
        """Return the driver and the handle under which the claim's volume counts. Return None if it does not count.

        The handle is UNKNOWN_HANDLE for a volume of an in-tree plugin that a driver has taken over.
        """
        volume = self.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        if volume is None:
            return self._attachment_by_class(claim)
        csi = volume.spec.csi
        if csi is None:
            plugin = in_tree_plugin(volume.spec)
            return (MIGRATED_DRIVERS[plugin], UNKNOWN_HANDLE) if plugin else None
        return (csi.driver, csi.volume_handle) if csi.driver and csi.volume_handle else None

    def _attachment_by_class(self, claim: PersistentVolumeClaim) -> tuple[str, str] | None:
        storage_class = self.classes.get(class_of_claim(claim) or "")
        if storage_class is None or storage_class.provisioner in _UNCOUNTED_PROVISIONERS:
            return None
        driver = MIGRATED_DRIVERS.get(storage_class.provisioner, storage_class.provisioner)
        return (driver, f"{_NOT_YET}{claim.metadata.namespace}/{claim.metadata.name}") if driver else None

    def _attach(self, pod: Pod, volumes: set[tuple[str, str]], uncertain: set[str]) -> None:
        namespace = pod.metadata.namespace
        for volume in pod.spec.volumes or ():
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
                template = volume.persistent_volume_claim.claim_template
            elif volume.ephemeral is not None:
                name = f"{pod.metadata.name}-{volume.name}"
                # A pod without a node and without a nomination is a simulated one. Its claims are not created yet; those of other pods are.
                exists = pod.spec.node_name or pod.status.nominated_node_name
                template = volume.ephemeral.volume_claim_template if not exists else None
            else:
                plugin = in_tree_plugin(volume)
                if plugin:
                    uncertain.add(MIGRATED_DRIVERS[plugin])
                continue
            claim = self.claims.get((namespace, name))
            if claim is None and template is not None:
                claim = self.claim_from_template(namespace, name, template)
            if claim is None:
                uncertain.update(() if self.claims_known(namespace, name) else ("",))
                continue
            attachment = self.attachment(claim)
            if attachment is None:
                continue
            if attachment[1] == UNKNOWN_HANDLE:
                uncertain.add(attachment[0])
            else:
                volumes.add(attachment)


class AvailableVolumes:
    """The volumes of one class that can be bound to a claim.

    ``reserved``: the volumes that are reserved for a claim, by its namespace and name. ``reachable_from`` yields the other volumes that may
    be reachable from a node.
    """

    def __init__(self) -> None:
        self.reserved: dict[tuple[str, str], list[PersistentVolume]] = {}
        self._by_label: dict[str, dict[str, list[PersistentVolume]]] = {}
        self._elsewhere: list[PersistentVolume] = []

    def __bool__(self) -> bool:
        return bool(self.reserved or self._by_label or self._elsewhere)

    def add(self, volume: PersistentVolume) -> None:
        """Add the volume to the reserved or to the free ones. A volume that cannot be bound is not added."""
        if volume.metadata.deletion_timestamp is not None:
            return
        reference = volume.spec.claim_ref
        if reference is not None:
            self.reserved.setdefault((reference.namespace, reference.name), []).append(volume)
            return
        if volume.status.phase != "Available":
            return
        key, values = _deciding_label(volume)
        for label_value in values:
            self._by_label.setdefault(key, {}).setdefault(label_value, []).append(volume)
        if not key:
            self._elsewhere.append(volume)

    def reachable_from(self, labels: Labels) -> Iterator[PersistentVolume]:
        """Yield the volumes whose node affinity may match a node with these labels."""
        yield from self._elsewhere
        for key, by_value in self._by_label.items():
            yield from by_value.get(labels.get(key, ""), ()) if key in labels else ()


class StorageClassCapacity:
    """The largest volume that can be created for one class, by the labels of nodes."""

    def __init__(self) -> None:
        self._by_labels: dict[tuple[str, ...], dict[tuple[str, ...], int]] = {}
        self._others: list[tuple[CSIStorageCapacity, int]] = []

    def add(self, capacity: CSIStorageCapacity) -> None:
        """Add a capacity that the driver has published. One without a topology or an amount counts as no capacity."""
        amount = capacity.capacity if capacity.maximum_volume_size is None else capacity.maximum_volume_size
        selector = capacity.node_topology
        if selector is None or amount is None:
            return
        size = value(parse_quantity(amount))
        if selector.match_expressions:
            self._others.append((capacity, size))
            return
        labels = sorted((selector.match_labels or {}).items())
        by_value = self._by_labels.setdefault(tuple(key for key, _value in labels), {})
        values = tuple(label_value for _key, label_value in labels)
        by_value[values] = max(size, by_value.get(values, size))

    def has(self, size: int, labels: Labels) -> bool:
        """Return whether a volume of ``size`` bytes can be created for a node with these labels."""
        for keys, by_value in self._by_labels.items():
            if all(key in labels for key in keys) and by_value.get(tuple(labels[key] for key in keys), -1) >= size:
                return True
        return any(largest >= size and matches(capacity.node_topology, labels) for capacity, largest in self._others)


def claims_used(pod: Pod) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of the claims that the pod names itself."""
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield pod.metadata.namespace, volume.persistent_volume_claim.claim_name


def _limits(storage: Storage) -> Iterator[tuple[str, dict[str, int]]]:
    for node in storage.nodes:
        drivers = [(driver.name, driver.allocatable.count) for driver in node.spec.drivers or () if driver.allocatable is not None]
        limits = {name: count for name, count in drivers if count is not None}
        if limits:
            yield node.metadata.name, limits


def _nodes_of(volume: PersistentVolume) -> t.Callable[[Node], bool] | None:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    terms = affinity.required.node_selector_terms
    # The scheduler compares only the labels, with a node that has no name. So ``matchFields`` of a valid term do not count
    # (component-helpers ``storage/volume/helpers.go`` and ``nodeaffinity.go``). The API server admits no other fields.
    if any(term.match_fields and not term.match_expressions for term in terms):
        return None
    return compile_selector(NodeSelector(tuple(replace(term, match_fields=None) for term in terms)))


def _deciding_label(volume: PersistentVolume) -> tuple[str, tuple[str, ...]]:
    """Return a label key that nodes must have, and its values. Return an empty key and no values if no such label is found.

    The label is found only if the node affinity has one term, such as that of local volumes.
    """
    required = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    if required is None or len(required.node_selector_terms) != 1:
        return "", ()
    for expression in required.node_selector_terms[0].match_expressions or ():
        if expression.operator == "In":
            return expression.key, tuple(dict.fromkeys(expression.values or ()))
    return "", ()


class AttachedVolumes(t.NamedTuple):
    """The CSI volumes of a node's pods, as driver and handle.

    ``uncertain``: drivers that may have more volumes there; an empty text means any driver.
    """

    volumes: frozenset[tuple[str, str]]
    uncertain: frozenset[str]
