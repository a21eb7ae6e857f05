# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Pods and pod templates (core/v1)."""

from __future__ import annotations

import typing as t

from ..codec import field, replace
from .device import is_extended
from .meta import ApiStruct, Condition, Labels, LabelSelector, Named, ObjectMeta, ResourceList
from .node import NodeSelector, NodeSelectorTerm
from .volume import Volume

RESIZE = "resize"
"""The subresource of pods that changes requests and limits in place."""


class ResourceRequirements(ApiStruct, frozen=True):
    """The requests and the limits of a container or a pod."""

    requests: t.Optional[ResourceList] = None
    limits: t.Optional[ResourceList] = None


class ContainerPort(ApiStruct, frozen=True):
    """A port of a container. Only ports with ``host_port`` are used by the filters."""

    host_port: int = 0
    container_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerRestartRule(ApiStruct, frozen=True):
    """The action of the kubelet when a container exits. Only RestartAllContainers requires a feature of the node."""

    action: str = ""


class Probe(ApiStruct, frozen=True):
    """A probe of a container. The kubelet does not begin with it before ``initial_delay_seconds``."""

    initial_delay_seconds: int = 0


class Container(ApiStruct, frozen=True):
    """A container's image, requests and ports. ``restart_policy`` Always marks an init container as a sidecar."""

    name: str = ""
    image: str = ""
    resources: t.Optional[ResourceRequirements] = None
    ports: t.Optional[tuple[ContainerPort, ...]] = None
    restart_policy: t.Optional[str] = None
    restart_policy_rules: t.Optional[tuple[ContainerRestartRule, ...]] = None
    readiness_probe: t.Optional[Probe] = None
    startup_probe: t.Optional[Probe] = None


class Toleration(ApiStruct, frozen=True):
    """A toleration. An empty key with the operator Exists tolerates every taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class PreferredSchedulingTerm(ApiStruct, frozen=True):
    """A preferred node affinity term."""

    weight: int = 0
    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)


class NodeAffinity(ApiStruct, frozen=True):
    """Required and preferred node affinity."""

    required_during_scheduling_ignored_during_execution: t.Optional[NodeSelector] = None
    preferred_during_scheduling_ignored_during_execution: t.Optional[tuple[PreferredSchedulingTerm, ...]] = None


class PodAffinityTerm(ApiStruct, frozen=True):
    """The pods and the topology key of a pod affinity or anti-affinity term."""

    label_selector: t.Optional[LabelSelector] = None
    namespaces: t.Optional[tuple[str, ...]] = None
    topology_key: str = ""
    namespace_selector: t.Optional[LabelSelector] = None
    match_label_keys: t.Optional[tuple[str, ...]] = None
    mismatch_label_keys: t.Optional[tuple[str, ...]] = None


class WeightedPodAffinityTerm(ApiStruct, frozen=True):
    """A preferred pod affinity or anti-affinity term."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)


class PodAffinity(ApiStruct, frozen=True):
    """Required and preferred terms of pod affinity or of pod anti-affinity."""

    required_during_scheduling_ignored_during_execution: t.Optional[tuple[PodAffinityTerm, ...]] = None
    preferred_during_scheduling_ignored_during_execution: t.Optional[tuple[WeightedPodAffinityTerm, ...]] = None


class Affinity(ApiStruct, frozen=True):
    """The node affinity, pod affinity and pod anti-affinity of a pod."""

    node_affinity: t.Optional[NodeAffinity] = None
    pod_affinity: t.Optional[PodAffinity] = None
    pod_anti_affinity: t.Optional[PodAffinity] = None


class TopologySpreadConstraint(ApiStruct, frozen=True):
    """A topology spread constraint of a pod."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: t.Optional[LabelSelector] = None
    match_label_keys: t.Optional[tuple[str, ...]] = None
    min_domains: t.Optional[int] = None
    node_affinity_policy: t.Optional[str] = None
    node_taints_policy: t.Optional[str] = None


class PodOS(ApiStruct, frozen=True):
    """The operating system that a pod requires."""

    name: str = ""


class PodSpec(ApiStruct, frozen=True):
    """The fields of a pod's spec that are used here."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    node_selector: t.Optional[Labels] = None
    affinity: t.Optional[Affinity] = None
    tolerations: t.Optional[tuple[Toleration, ...]] = None
    topology_spread_constraints: t.Optional[tuple[TopologySpreadConstraint, ...]] = None
    containers: tuple[Container, ...] = ()
    init_containers: t.Optional[tuple[Container, ...]] = None
    resources: t.Optional[ResourceRequirements] = None
    overhead: t.Optional[ResourceList] = None
    volumes: t.Optional[tuple[Volume, ...]] = None
    host_network: bool = False
    host_users: t.Optional[bool] = None
    runtime_class_name: str = ""
    priority: t.Optional[int] = None
    priority_class_name: str = ""
    preemption_policy: t.Optional[str] = None
    scheduling_gates: t.Optional[tuple[Named, ...]] = None
    resource_claims: t.Optional[tuple[Named, ...]] = None
    scheduling_group: t.Optional[dict[str, t.Any]] = None
    os: t.Optional[PodOS] = None
    termination_grace_period_seconds: t.Optional[int] = None

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """Return the containers, followed by the init containers."""
        return (*self.containers, *(self.init_containers or ()))


class ContainerStateWaiting(ApiStruct, frozen=True):
    """The reason why a container does not run. ``reason`` is the kubelet's code, such as CrashLoopBackOff."""

    reason: str = ""
    message: str = ""


class ContainerState(ApiStruct, frozen=True):
    """The state of a container. Nothing is read of a running or ended container, so that all such states are equal."""

    waiting: t.Optional[ContainerStateWaiting] = None


class ContainerStatus(ApiStruct, frozen=True):
    """The state of a container and its actual resources. The actual resources count while a pod is being resized."""

    name: str = ""
    state: t.Optional[ContainerState] = None
    resources: t.Optional[ResourceRequirements] = None
    allocated_resources: t.Optional[ResourceList] = None


class PodStatus(ApiStruct, frozen=True):
    """Phase, conditions and actual resources of a pod."""

    phase: str = ""
    reason: str = ""
    conditions: t.Optional[tuple[Condition, ...]] = None
    nominated_node_name: str = ""
    container_statuses: t.Optional[tuple[ContainerStatus, ...]] = None
    init_container_statuses: t.Optional[tuple[ContainerStatus, ...]] = None
    resources: t.Optional[ResourceRequirements] = None
    allocated_resources: t.Optional[ResourceList] = None


class Pod(ApiStruct, frozen=True):
    """A pod, or a pod that is made of a template."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)

    @property
    def disruption_reason(self) -> str | None:
        """Return the reason for which the control plane or the kubelet ends the pod (KEP-3329). None if neither does.

        Tenants cannot write this condition.
        """
        found = (one for one in self.status.conditions or () if one.type == "DisruptionTarget" and one.status == "True")
        return next((one.reason for one in found), None)

    @property
    def terminal(self) -> bool:
        """Return whether the phase is Succeeded or Failed. Such a pod no longer uses its node's resources."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def terminating(self) -> bool:
        """Return whether the pod is being deleted. Such a pod still uses its node's resources."""
        return self.metadata.deletion_timestamp is not None

    @property
    def ready(self) -> bool:
        """Return whether the Ready condition is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())

    @property
    def edited(self) -> bool:
        """Return whether the spec was changed after the creation. It is false with servers before 1.33, which do not report it."""
        return self.metadata.generation > 1

    @property
    def resized(self) -> bool:
        """Return whether requests or limits were changed in place (kubernetes ``pkg/registry/core/pod/strategy.go``, podResizeStrategy)."""
        entries = self.metadata.managed_fields
        return entries is not None and any(entry.subresource == RESIZE for entry in entries)

    @property
    def edited_by_others(self) -> bool:
        """Return whether the spec was changed by something else than a resize.

        If the pod was also resized, a second direct writer in addition to its creator shows such a change.
        """
        entries = self.metadata.managed_fields or ()
        return self.edited and (not self.resized or sum(not entry.subresource for entry in entries) > 1)


class PodTemplate(ApiStruct, frozen=True):
    """The pod template of a workload."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)


def extended_resources(pod: Pod) -> set[str]:
    """Return the extended resources that the containers of the pod request."""
    asked = (container.resources for container in pod.spec.all_containers if container.resources is not None)
    return {name for resources in asked for name in (*(resources.requests or ()), *(resources.limits or ())) if is_extended(name)}


def mounts_claims(pod: Pod) -> bool:
    """Return whether a volume of the pod is a PersistentVolumeClaim or an ephemeral volume."""
    return any(volume.persistent_volume_claim is not None or volume.ephemeral is not None for volume in pod.spec.volumes or ())


def is_sidecar(container: Container) -> bool:
    """Return whether the init container runs for as long as the pod."""
    return container.restart_policy == "Always"


def with_containers(spec: PodSpec, change: t.Callable[[Container], Container]) -> PodSpec:
    """Return the spec with all its containers and init containers changed."""
    init = tuple(map(change, spec.init_containers)) if spec.init_containers else spec.init_containers
    return replace(spec, containers=tuple(map(change, spec.containers)), init_containers=init)
