# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Comparison of live pods of one revision.

What all of them have comes from the template or from admission. After a pod's creation, tolerations may be added, images changed, requests
and limits resized and scheduling gates removed. While the pod has gates, its node selector and node affinity may be extended (kubernetes
``pkg/apis/core/validation/validation.go``, ValidatePodUpdate and ValidatePodResize). A new pod does not have such changes: a controller
that removes gates decides for each pod.
"""

from __future__ import annotations

import typing as t
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from ...model.api.meta import ResourceList
from ...model.api.pod import Container, NodeAffinity, Pod, PodSpec, PodTemplate, ResourceRequirements, Toleration
from ...model.api.volume import Volume
from ...model.api.workload import Workload
from ...model.codec import replace
from ...model.interning import binds_to_nodes
from ...model.selectors.match_label_keys import without_merged_label_keys

_FIELDS = {
    "node_selector": "spec.nodeSelector",
    "affinity": "spec.affinity",
    "topology_spread_constraints": "spec.topologySpreadConstraints",
    "tolerations": "spec.tolerations",
    "containers": "spec.containers",
    "init_containers": "spec.initContainers",
    "resources": "spec.resources",
    "overhead": "spec.overhead",
    "host_network": "spec.hostNetwork",
    "host_users": "spec.hostUsers",
    "runtime_class_name": "spec.runtimeClassName",
    "scheduler_name": "spec.schedulerName",
    "priority": "spec.priority",
    "priority_class_name": "spec.priorityClassName",
    "resource_claims": "spec.resourceClaims",
    "scheduling_group": "spec.schedulingGroup",
    "os": "spec.os",
}
"""The fields that decide on which nodes a pod may run. Volumes and scheduling gates are compared by their own rules."""

_values = attrgetter(*_FIELDS)
_RESIZABLE = ("cpu", "memory")

# The API server gives tolerations of these taints to every pod without its own (``plugin/pkg/admission/defaulttolerationseconds``).
_TOLERATED_BY_ALL = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_VPA_ANNOTATIONS = ("vpaUpdates", "vpaObservedContainers")
"""Annotations of the VerticalPodAutoscaler. Source: kubernetes/autoscaler ``vertical-pod-autoscaler/pkg/admission-controller``."""


class SamplePod(t.NamedTuple):
    """The live pod that represents a new one.

    It is the youngest pod that was never changed. If all were changed, it is the youngest that was never resized, and otherwise the
    youngest.
    """

    pod: Pod

    @classmethod
    def of(cls, pods: Sequence[Pod]) -> SamplePod:
        """Choose the sample from the live pods of one revision, at least one."""
        unchanged = [pod for pod in pods if not pod.edited and not pod.resized] or [pod for pod in pods if not pod.resized] or pods
        return cls(max(unchanged, key=_age))

    @property
    def resized(self) -> bool:
        """True if every pod was resized, so that none has its original resources."""
        return self.pod.resized

    def spec(self, template: PodTemplate) -> PodSpec:
        """Return the spec without merged label keys.

        If all pods were changed, the images are taken from the template, and if all were resized, cpu and memory as well.
        """
        spec = without_merged_label_keys(self.pod)
        if not self.resized and not self.pod.edited:
            return spec
        of_template = {container.name: container for container in template.spec.all_containers}

        def back(container: Container) -> Container:
            own = of_template.get(container.name)
            if own is not None and self.pod.edited:
                container = replace(container, image=own.image)
            if not self.resized:
                return container
            return replace(container, resources=_as_before(container.resources, own.resources if own is not None else None))

        init = tuple(map(back, spec.init_containers)) if spec.init_containers else spec.init_containers
        resources = _as_before(spec.resources, template.spec.resources) if self.resized and spec.resources is not None else spec.resources
        return replace(spec, containers=tuple(map(back, spec.containers)), init_containers=init, resources=resources)

    def unsure_field(self, template: PodTemplate) -> str:
        """Return the field that may have been changed in all pods after creation.

        Its original value is unknown. Empty if there is no such field.
        """
        spec = self.pod.spec
        if self.pod.edited:
            own = {*(template.spec.tolerations or ()), *(Toleration(key, "Exists", "", "NoExecute") for key in _TOLERATED_BY_ALL)}
            if not own.issuperset(spec.tolerations or ()):
                return _FIELDS["tolerations"]
        if self.pod.edited_by_others or template.spec.scheduling_gates:
            if (spec.node_selector or {}) != (template.spec.node_selector or {}):
                return _FIELDS["node_selector"]
            if _node_affinity(spec) != _node_affinity(template.spec):
                return _FIELDS["affinity"]
        if self.resized:
            known = {container.name for container in template.spec.all_containers}
            added = next((container.name for container in spec.all_containers if container.name not in known), "")
            by_autoscaler = any(key in (self.pod.metadata.annotations or {}) for key in _VPA_ANNOTATIONS)
            if added or by_autoscaler:
                return f"spec.containers[{added or spec.containers[0].name}].resources"
        return ""


def _node_affinity(spec: PodSpec) -> t.Optional[NodeAffinity]:
    return spec.affinity.node_affinity if spec.affinity is not None else None


def differing_field(sample: SamplePod, pods: Iterable[Pod], workload: Workload) -> str:
    """Return the path of the first relevant field in which a pod differs from the sample; empty if all are equal."""
    like = sample.pod
    anywhere, values = replace(like.spec, node_name=""), _values(like.spec)
    own_claims = {claim.metadata.name for claim in workload.spec.volume_claim_templates or ()}
    for pod in pods:
        # Pods of one workload share equal parts (``model/interning.py``), so this mostly compares identities.
        if replace(pod.spec, node_name="") == anywhere:
            continue
        if _values(pod.spec) != values:
            for name, path in _FIELDS.items():
                field = _COMPARED.get(name, _plainly)(pod, like, name)
                if field:
                    return field if field.startswith("spec.") else path
        if pod.spec.volumes is not like.spec.volumes and _bound(pod.spec, own_claims) != _bound(like.spec, own_claims):
            return "spec.volumes"
    return ""


# Field comparisons. Each function returns an empty text if the pods are equal. A text that begins with ``spec.`` is the path; any other
# text means the field's own path.


def _plainly(pod: Pod, like: Pod, name: str) -> str:
    own, other = getattr(pod.spec, name), getattr(like.spec, name)
    return "differs" if own != other and (own or other) else ""


def _without_merges(pod: Pod, like: Pod, name: str) -> str:
    if getattr(pod.spec, name) == getattr(like.spec, name):
        return ""
    own, other = (getattr(without_merged_label_keys(one), name) for one in (pod, like))
    return "differs" if own != other and (own or other) else ""


def _tolerations(pod: Pod, like: Pod, _name: str) -> str:
    own, other = set(pod.spec.tolerations or ()), set(like.spec.tolerations or ())
    added_later = pod.edited and own >= other
    return "" if own == other or added_later else "differs"


def _unless_resized(pod: Pod, like: Pod, name: str) -> str:
    return "" if pod.resized else _plainly(pod, like, name)


def _containers(pod: Pod, like: Pod, name: str) -> str:
    own, other = getattr(pod.spec, name) or (), getattr(like.spec, name) or ()
    if own == other:
        return ""
    if len(own) != len(other) or any(_bare(one) != _bare(two) for one, two in zip(own, other)):
        return "differs"
    if pod.resized:
        return ""
    field = next((one.name for one, two in zip(own, other) if one.resources != two.resources), None)
    return f"{_FIELDS[name]}[{field}].resources" if field is not None else ""


_COMPARED: dict[str, Callable[[Pod, Pod, str], str]] = {
    "affinity": _without_merges,
    "topology_spread_constraints": _without_merges,
    "tolerations": _tolerations,
    "resources": _unless_resized,
    "containers": _containers,
    "init_containers": _containers,
}


def _bare(container: Container) -> Container:
    # The image of a pod can be changed in place. It does not decide on which nodes the pod can run.
    return replace(container, resources=None, image="")


def _bound(spec: PodSpec, own_claims: set[str]) -> list[Volume]:
    """Return the volumes that may bind a pod to nodes.

    The claims of a StatefulSet's own replicas are left out because they differ by ordinal.
    """
    return [volume for volume in spec.volumes or () if volume.name not in own_claims and binds_to_nodes(volume)]


def _as_before(now: t.Optional[ResourceRequirements], own: t.Optional[ResourceRequirements]) -> ResourceRequirements:
    """Return the resources with the template's amounts of the resources that a resize may change."""
    now, own = now or ResourceRequirements(), own or ResourceRequirements()
    return ResourceRequirements(_amounts_before(now.requests, own.requests), _amounts_before(now.limits, own.limits))


def _amounts_before(now: t.Optional[ResourceList], own: t.Optional[ResourceList]) -> t.Optional[ResourceList]:
    kept = {name: amount for name, amount in (now or {}).items() if name not in _RESIZABLE}
    return {**kept, **{name: amount for name, amount in (own or {}).items() if name in _RESIZABLE}} or None


def _age(pod: Pod) -> tuple[str, str]:
    return pod.metadata.creation_timestamp or "", pod.metadata.name
