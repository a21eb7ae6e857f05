# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Kubernetes objects as typed structs that hold only the fields used here.

Names are those of the API in snake case (k8s.io/api v1.36). Structs are frozen: what is equal may be shared between objects.
"""

from __future__ import annotations

import typing as t

from .labels import CONTROLLER_REVISION_HASH, POD_INDEX, POD_TEMPLATE_HASH, STATEFUL_SET_POD_NAME
from .wire import Struct, field, replace

Labels = dict[str, str]
ResourceList = dict[str, str]
IntOrString = t.Union[int, str]

NEXT_REVISION = "next"
"""Stands for the revision that a restart would make; the hashes of real revisions look different."""


RESIZE = "resize"
"""The subresource of pods through which requests and limits change in place."""


class ApiStruct(Struct, rename="camel", frozen=True, omit_defaults=True, gc=False):
    """Base of every API type: camelCase on the wire, no cycles (so no garbage collector work)."""


# --- metadata ---------------------------------------------------------------------------------------------------------


class OwnerReference(ApiStruct, frozen=True):
    """Who owns an object; at most one owner is the controller."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: t.Optional[bool] = None


class ManagedFieldsEntry(ApiStruct, frozen=True):
    """One writer of an object; only the subresource that it wrote to counts here."""

    subresource: str = ""


class ObjectMeta(ApiStruct, frozen=True):
    """The parts of metadata that decisions use; times stay RFC 3339 texts."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: t.Optional[str] = None
    labels: t.Optional[Labels] = None
    annotations: t.Optional[Labels] = None
    owner_references: t.Optional[tuple[OwnerReference, ...]] = None
    deletion_timestamp: t.Optional[str] = None
    deletion_grace_period_seconds: t.Optional[int] = None
    finalizers: t.Optional[tuple[str, ...]] = None
    managed_fields: t.Optional[tuple[ManagedFieldsEntry, ...]] = None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner whose ``controller`` is true, if any."""
        return next((owner for owner in self.owner_references or () if owner.controller), None)


class LabelSelectorRequirement(ApiStruct, frozen=True):
    """One ``matchExpressions`` entry of a label selector."""

    key: str = ""
    operator: str = ""
    values: t.Optional[tuple[str, ...]] = None


class LabelSelector(ApiStruct, frozen=True):
    """A label selector; absent selects nothing, empty selects everything."""

    match_labels: t.Optional[Labels] = None
    match_expressions: t.Optional[tuple[LabelSelectorRequirement, ...]] = None


class Condition(ApiStruct, frozen=True):
    """A condition of any object."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


# --- pods -------------------------------------------------------------------------------------------------------------


class ResourceRequirements(ApiStruct, frozen=True):
    """Requests and limits; ``claims`` only tells that there are some."""

    requests: t.Optional[ResourceList] = None
    limits: t.Optional[ResourceList] = None


class ContainerPort(ApiStruct, frozen=True):
    """A port; only ports with ``host_port`` matter for placement."""

    host_port: int = 0
    container_port: int = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = "TCP"


class ContainerRestartRule(ApiStruct, frozen=True):
    """What the kubelet does when a container exits; only RestartAllContainers needs a feature of the node."""

    action: str = ""


class Container(ApiStruct, frozen=True):
    """A container's requests and ports; ``restart_policy`` Always marks a restartable init container."""

    name: str = ""
    resources: t.Optional[ResourceRequirements] = None
    ports: t.Optional[tuple[ContainerPort, ...]] = None
    restart_policy: t.Optional[str] = None
    restart_policy_rules: t.Optional[tuple[ContainerRestartRule, ...]] = None


class Toleration(ApiStruct, frozen=True):
    """A toleration; an empty key with operator Exists tolerates every taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class NodeSelectorRequirement(ApiStruct, frozen=True):
    """One expression over a node's labels or fields."""

    key: str = ""
    operator: str = ""
    values: t.Optional[tuple[str, ...]] = None


class NodeSelectorTerm(ApiStruct, frozen=True):
    """Expressions that must all hold; a term without any selects no node."""

    match_expressions: t.Optional[tuple[NodeSelectorRequirement, ...]] = None
    match_fields: t.Optional[tuple[NodeSelectorRequirement, ...]] = None


class NodeSelector(ApiStruct, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(ApiStruct, frozen=True):
    """A soft node affinity term."""

    weight: int = 0
    preference: NodeSelectorTerm = field(default_factory=NodeSelectorTerm)


class NodeAffinity(ApiStruct, frozen=True):
    """Hard and soft node affinity."""

    required_during_scheduling_ignored_during_execution: t.Optional[NodeSelector] = None
    preferred_during_scheduling_ignored_during_execution: t.Optional[tuple[PreferredSchedulingTerm, ...]] = None


class PodAffinityTerm(ApiStruct, frozen=True):
    """Pods to be near to, or away from, within a topology."""

    label_selector: t.Optional[LabelSelector] = None
    namespaces: t.Optional[tuple[str, ...]] = None
    topology_key: str = ""
    namespace_selector: t.Optional[LabelSelector] = None
    match_label_keys: t.Optional[tuple[str, ...]] = None
    mismatch_label_keys: t.Optional[tuple[str, ...]] = None


class WeightedPodAffinityTerm(ApiStruct, frozen=True):
    """A soft pod affinity term."""

    weight: int = 0
    pod_affinity_term: PodAffinityTerm = field(default_factory=PodAffinityTerm)


class PodAffinity(ApiStruct, frozen=True):
    """Hard and soft terms of pod affinity or of pod anti-affinity."""

    required_during_scheduling_ignored_during_execution: t.Optional[tuple[PodAffinityTerm, ...]] = None
    preferred_during_scheduling_ignored_during_execution: t.Optional[tuple[WeightedPodAffinityTerm, ...]] = None


class Affinity(ApiStruct, frozen=True):
    """All affinity of a pod."""

    node_affinity: t.Optional[NodeAffinity] = None
    pod_affinity: t.Optional[PodAffinity] = None
    pod_anti_affinity: t.Optional[PodAffinity] = None


class TopologySpreadConstraint(ApiStruct, frozen=True):
    """A declared spread constraint."""

    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: t.Optional[LabelSelector] = None
    match_label_keys: t.Optional[tuple[str, ...]] = None
    min_domains: t.Optional[int] = None
    node_affinity_policy: t.Optional[str] = None
    node_taints_policy: t.Optional[str] = None


class StorageRequirements(ApiStruct, frozen=True):
    """How much storage a claim asks for."""

    requests: t.Optional[ResourceList] = None


class PersistentVolumeClaimSpec(ApiStruct, frozen=True):
    """What a claim asks for, and the volume it is bound to; no storage class and an empty one are not the same."""

    access_modes: t.Optional[tuple[str, ...]] = None
    resources: StorageRequirements = field(default_factory=StorageRequirements)
    selector: t.Optional[LabelSelector] = None
    storage_class_name: t.Optional[str] = None
    volume_attributes_class_name: t.Optional[str] = None
    volume_mode: t.Optional[str] = None
    volume_name: str = ""


class VolumeClaimTemplate(ApiStruct, frozen=True):
    """A claim that is made for each pod, of a StatefulSet or of an ephemeral volume."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)


class ClaimVolumeSource(ApiStruct, frozen=True):
    """A volume that is a PersistentVolumeClaim of the pod's namespace.

    ``made_from`` is never on the wire: it is what a StatefulSet makes the claim of where there is none yet.
    """

    claim_name: str = ""
    made_from: t.Optional[VolumeClaimTemplate] = None


class EphemeralVolumeSource(ApiStruct, frozen=True):
    """A volume whose claim comes and goes with the pod."""

    volume_claim_template: t.Optional[VolumeClaimTemplate] = None


class GCEPersistentDisk(ApiStruct, frozen=True):
    """A disk of Google's cloud."""

    pd_name: str = ""
    read_only: bool = False


class AWSElasticBlockStore(ApiStruct, frozen=True):
    """A disk of Amazon's cloud."""

    volume_id: str = field(default="", name="volumeID")


class RBD(ApiStruct, frozen=True):
    """A block image of Ceph."""

    monitors: t.Optional[tuple[str, ...]] = None
    pool: str = "rbd"
    image: str = ""
    read_only: bool = False


class ISCSI(ApiStruct, frozen=True):
    """An iSCSI disk, known by its qualified name."""

    iqn: str = ""
    read_only: bool = False


class Volume(ApiStruct, frozen=True):
    """A volume; the sources that bind a pod to nodes are named, the rest (inline CSI volumes, too) are left out."""

    name: str = ""
    persistent_volume_claim: t.Optional[ClaimVolumeSource] = None
    ephemeral: t.Optional[EphemeralVolumeSource] = None
    gce_persistent_disk: t.Optional[GCEPersistentDisk] = None
    aws_elastic_block_store: t.Optional[AWSElasticBlockStore] = None
    azure_disk: t.Optional[dict[str, t.Any]] = None
    cinder: t.Optional[dict[str, t.Any]] = None
    portworx_volume: t.Optional[dict[str, t.Any]] = None
    rbd: t.Optional[RBD] = None
    iscsi: t.Optional[ISCSI] = None
    empty_dir: t.Optional[dict[str, t.Any]] = None
    host_path: t.Optional[dict[str, t.Any]] = None

    @property
    def local(self) -> bool:
        """Its content is on the node and stays there, or goes, when the pod leaves."""
        return self.empty_dir is not None or self.host_path is not None


class Named(ApiStruct, frozen=True):
    """Anything of which only the name counts (scheduling gates, resource claims)."""

    name: str = ""


class PodOS(ApiStruct, frozen=True):
    """The operating system that a pod says it is for."""

    name: str = ""


class PodSpec(ApiStruct, frozen=True):
    """What decides where a pod may run."""

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
        """The containers, and then the init containers."""
        return (*self.containers, *(self.init_containers or ()))


class ContainerStateWaiting(ApiStruct, frozen=True):
    """Why a container does not run; ``reason`` is the kubelet's word, such as CrashLoopBackOff."""

    reason: str = ""
    message: str = ""


class ContainerState(ApiStruct, frozen=True):
    """The state of a container; of one that runs or has ended nothing is read, so that all such states are equal."""

    waiting: t.Optional[ContainerStateWaiting] = None


class ContainerStatus(ApiStruct, frozen=True):
    """The state of a container, and the resources that it really has, which count while a pod is being resized."""

    name: str = ""
    state: t.Optional[ContainerState] = None
    resources: t.Optional[ResourceRequirements] = None
    allocated_resources: t.Optional[ResourceList] = None


class PodStatus(ApiStruct, frozen=True):
    """Phase, conditions and actuated resources of a pod."""

    phase: str = ""
    reason: str = ""
    conditions: t.Optional[tuple[Condition, ...]] = None
    nominated_node_name: str = ""
    container_statuses: t.Optional[tuple[ContainerStatus, ...]] = None
    init_container_statuses: t.Optional[tuple[ContainerStatus, ...]] = None
    resources: t.Optional[ResourceRequirements] = None
    allocated_resources: t.Optional[ResourceList] = None


class Pod(ApiStruct, frozen=True):
    """A pod, or a pod that a template would make."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)

    @property
    def terminal(self) -> bool:
        """Succeeded or Failed: it no longer uses its node's resources."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def terminating(self) -> bool:
        """Deletion has been asked for; it still uses its node's resources."""
        return self.metadata.deletion_timestamp is not None

    @property
    def ready(self) -> bool:
        """Its Ready condition is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())

    @property
    def edited(self) -> bool:
        """Somebody changed its spec after its creation; servers before 1.33 do not tell, and then it is false."""
        return self.metadata.generation > 1

    @property
    def resized(self) -> bool:
        """Somebody changed its requests or limits in place (kubernetes ``pkg/registry/core/pod/strategy.go``, podResizeStrategy)."""
        entries = self.metadata.managed_fields
        return entries is not None and any(entry.subresource == RESIZE for entry in entries)

    @property
    def edited_by_others(self) -> bool:
        """Somebody changed its spec otherwise than by a resize: a pod that was resized as well has another writer than its creator."""
        entries = self.metadata.managed_fields or ()
        return self.edited and (not self.resized or sum(not entry.subresource for entry in entries) > 1)


# --- nodes ------------------------------------------------------------------------------------------------------------


class Taint(ApiStruct, frozen=True):
    """A taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpec(ApiStruct, frozen=True):
    """Cordon and taints."""

    unschedulable: bool = False
    taints: t.Optional[tuple[Taint, ...]] = None


class NodeStatus(ApiStruct, frozen=True):
    """Room and health of a node."""

    allocatable: t.Optional[ResourceList] = None
    capacity: t.Optional[ResourceList] = None
    conditions: t.Optional[tuple[Condition, ...]] = None
    declared_features: t.Optional[tuple[str, ...]] = None


class Node(ApiStruct, frozen=True):
    """A node."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)

    @property
    def name(self) -> str:
        """The node's name, by which pods refer to it."""
        return self.metadata.name

    @property
    def labels(self) -> Labels:
        """The node's labels, empty where it has none."""
        return self.metadata.labels or {}

    @property
    def ready(self) -> bool:
        """Its Ready condition is True."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())


# --- workloads --------------------------------------------------------------------------------------------------------


class PodTemplate(ApiStruct, frozen=True):
    """The pod template of a workload."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodSpec = field(default_factory=PodSpec)


class RollingUpdate(ApiStruct, frozen=True):
    """Bounds of a rolling update; numbers or percentages. ``partition`` is a StatefulSet's."""

    max_unavailable: t.Optional[IntOrString] = None
    max_surge: t.Optional[IntOrString] = None
    partition: t.Optional[int] = None


class UpdateStrategy(ApiStruct, frozen=True):
    """``strategy`` of a Deployment or ``updateStrategy`` of a StatefulSet."""

    type: str = "RollingUpdate"
    rolling_update: t.Optional[RollingUpdate] = None


class StatefulSetOrdinals(ApiStruct, frozen=True):
    """The ordinal of a StatefulSet's first replica."""

    start: int = 0


class WorkloadSpec(ApiStruct, frozen=True):
    """The spec of a Deployment, StatefulSet or ReplicaSet."""

    replicas: int = 1
    selector: t.Optional[LabelSelector] = None
    template: PodTemplate = field(default_factory=PodTemplate)
    paused: bool = False
    strategy: t.Optional[UpdateStrategy] = None
    update_strategy: t.Optional[UpdateStrategy] = None
    volume_claim_templates: t.Optional[tuple[VolumeClaimTemplate, ...]] = None
    ordinals: t.Optional[StatefulSetOrdinals] = None


class WorkloadStatus(ApiStruct, frozen=True):
    """The status of a Deployment, StatefulSet or ReplicaSet."""

    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    conditions: t.Optional[tuple[Condition, ...]] = None


class Workload(ApiStruct, frozen=True):
    """A Deployment, StatefulSet or ReplicaSet; ``kind`` is absent in lists and set by the reader."""

    kind: str = ""
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)

    @property
    def first_ordinal(self) -> int:
        """The ordinal of a StatefulSet's first replica."""
        return self.spec.ordinals.start if self.spec.ordinals is not None else 0

    def __str__(self) -> str:
        return f"{self.kind} {self.metadata.namespace}/{self.metadata.name}"


class PodConditionPattern(ApiStruct, frozen=True):
    """A condition of a failed pod that a rule is for."""

    type: str = ""
    status: str = "True"


class PodFailureRule(ApiStruct, frozen=True):
    """What a Job does about a pod that failed in a certain way; the first rule that matches counts."""

    action: str = ""
    on_pod_conditions: t.Optional[tuple[PodConditionPattern, ...]] = None


class PodFailurePolicy(ApiStruct, frozen=True):
    """The rules of a Job."""

    rules: tuple[PodFailureRule, ...] = ()


class JobSpec(ApiStruct, frozen=True):
    """How a Job takes it when pods fail."""

    pod_failure_policy: t.Optional[PodFailurePolicy] = None


class Job(ApiStruct, frozen=True):
    """A Job."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: JobSpec = field(default_factory=JobSpec)

    @property
    def ignores_disruptions(self) -> bool:
        """An eviction of one of its pods does not count as a failure: its rules ignore the condition DisruptionTarget."""
        policy = self.spec.pod_failure_policy
        for rule in policy.rules if policy is not None else ():
            if any(pattern.type == "DisruptionTarget" and pattern.status == "True" for pattern in rule.on_pod_conditions or ()):
                return rule.action == "Ignore"
        return False


# --- what bounds a restart --------------------------------------------------------------------------------------------


class Namespace(ApiStruct, frozen=True):
    """A namespace; ``status.phase`` Terminating accepts no new pods."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    status: PodStatus = field(default_factory=PodStatus)


class PodDisruptionBudgetSpec(ApiStruct, frozen=True):
    """Which pods a budget is for."""

    selector: t.Optional[LabelSelector] = None
    unhealthy_pod_eviction_policy: t.Optional[str] = None


class PodDisruptionBudgetStatus(ApiStruct, frozen=True):
    """What the disruption controller worked out."""

    desired_healthy: int = 0
    current_healthy: int = 0
    expected_pods: int = 0
    disruptions_allowed: int = 0
    observed_generation: int = 0
    conditions: t.Optional[tuple[Condition, ...]] = None


class PodDisruptionBudget(ApiStruct, frozen=True):
    """A PodDisruptionBudget."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PodDisruptionBudgetSpec = field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = field(default_factory=PodDisruptionBudgetStatus)


class ScopeSelectorRequirement(ApiStruct, frozen=True):
    """One scope of a quota."""

    scope_name: str = ""
    operator: str = ""
    values: t.Optional[tuple[str, ...]] = None


class ScopeSelector(ApiStruct, frozen=True):
    """The scopes of a quota."""

    match_expressions: t.Optional[tuple[ScopeSelectorRequirement, ...]] = None


class ResourceQuotaSpec(ApiStruct, frozen=True):
    """The bounds of a quota and the pods that they count."""

    hard: t.Optional[ResourceList] = None
    scopes: t.Optional[tuple[str, ...]] = None
    scope_selector: t.Optional[ScopeSelector] = None


class ResourceQuotaStatus(ApiStruct, frozen=True):
    """What the quota counts now."""

    hard: t.Optional[ResourceList] = None
    used: t.Optional[ResourceList] = None


class ResourceQuota(ApiStruct, frozen=True):
    """A ResourceQuota."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: ResourceQuotaSpec = field(default_factory=ResourceQuotaSpec)
    status: ResourceQuotaStatus = field(default_factory=ResourceQuotaStatus)


class LimitRangeItem(ApiStruct, frozen=True):
    """Defaults that admission gives to containers which ask for nothing, and what it turns down."""

    type: str = ""
    default: t.Optional[ResourceList] = None
    default_request: t.Optional[ResourceList] = None
    max: t.Optional[ResourceList] = None
    min: t.Optional[ResourceList] = None
    max_limit_request_ratio: t.Optional[ResourceList] = None


class LimitRangeSpec(ApiStruct, frozen=True):
    """The limits of a LimitRange."""

    limits: t.Optional[tuple[LimitRangeItem, ...]] = None


class LimitRange(ApiStruct, frozen=True):
    """A LimitRange."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: LimitRangeSpec = field(default_factory=LimitRangeSpec)


class CrossVersionObjectReference(ApiStruct, frozen=True):
    """The workload that an autoscaler scales."""

    kind: str = ""
    name: str = ""


class HorizontalPodAutoscalerSpec(ApiStruct, frozen=True):
    """Target and bounds of an autoscaler."""

    scale_target_ref: CrossVersionObjectReference = field(default_factory=CrossVersionObjectReference)
    min_replicas: t.Optional[int] = None
    max_replicas: int = 0


class HorizontalPodAutoscalerStatus(ApiStruct, frozen=True):
    """What the autoscaler wants."""

    desired_replicas: int = 0


class HorizontalPodAutoscaler(ApiStruct, frozen=True):
    """A HorizontalPodAutoscaler."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: HorizontalPodAutoscalerSpec = field(default_factory=HorizontalPodAutoscalerSpec)
    status: HorizontalPodAutoscalerStatus = field(default_factory=HorizontalPodAutoscalerStatus)


class PersistentVolumeClaim(ApiStruct, frozen=True):
    """A PersistentVolumeClaim."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)
    status: PodStatus = field(default_factory=PodStatus)


class DeviceClassSpec(ApiStruct, frozen=True):
    """``extended_resource_name``: the resource for which pods may ask instead of naming the class."""

    extended_resource_name: str = ""


class DeviceClass(ApiStruct, frozen=True):
    """A kind of devices for dynamic resource allocation."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DeviceClassSpec = field(default_factory=DeviceClassSpec)


DEVICE_CLASS_PREFIX = "deviceclass.resource.kubernetes.io/"


def is_extended(resource: str) -> bool:
    """Neither Kubernetes' own nor of a device class (k8s.io/component-helpers ``scheduling/corev1/helpers.go``)."""
    return "/" in resource and "kubernetes.io/" not in resource


def extended_resources(pod: Pod) -> set[str]:
    """The extended resources that some container of the pod asks for."""
    asked = (container.resources for container in pod.spec.all_containers if container.resources is not None)
    return {name for resources in asked for name in (*(resources.requests or ()), *(resources.limits or ())) if is_extended(name)}


def mounts_claims(pod: Pod) -> bool:
    """Some volume of the pod is a claim, of its own or not."""
    return any(volume.persistent_volume_claim is not None or volume.ephemeral is not None for volume in pod.spec.volumes or ())


def pod_of_template(namespace: str, template: PodTemplate, *, name: str = "") -> Pod:
    """The pod that a workload's template would make in ``namespace``, as far as placement is concerned.

    Its affinity terms are merged with their label keys, as the API server merges them when it creates a pod. Those of spread
    constraints the scheduler merges itself.
    """
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        labels=template.metadata.labels,
        annotations=template.metadata.annotations,
    )
    return Pod(metadata=metadata, spec=_with_merged_terms(template.spec, template.metadata.labels or {}), status=PodStatus(phase="Pending"))


def _with_merged_terms(spec: PodSpec, labels: Labels) -> PodSpec:
    """``matchLabelKeys`` and ``mismatchLabelKeys`` as selectors (kubernetes ``pkg/registry/core/pod/strategy.go``)."""
    affinity = spec.affinity
    if affinity is None or not any(_has_label_keys(part) for part in (affinity.pod_affinity, affinity.pod_anti_affinity)):
        return spec
    merged = replace(
        affinity,
        pod_affinity=_merged(affinity.pod_affinity, labels),
        pod_anti_affinity=_merged(affinity.pod_anti_affinity, labels),
    )
    return replace(spec, affinity=merged)


def _has_label_keys(part: PodAffinity | None) -> bool:
    terms = part.required_during_scheduling_ignored_during_execution if part is not None else None
    return any(term.match_label_keys or term.mismatch_label_keys for term in terms or ())


def _merged(part: PodAffinity | None, labels: Labels) -> PodAffinity | None:
    if part is None or not _has_label_keys(part):
        return part
    terms = part.required_during_scheduling_ignored_during_execution or ()
    return replace(part, required_during_scheduling_ignored_during_execution=tuple(_merged_term(term, labels) for term in terms))


def _merged_term(term: PodAffinityTerm, labels: Labels) -> PodAffinityTerm:
    selector = with_label_keys(term.label_selector, labels, match=term.match_label_keys, mismatch=term.mismatch_label_keys)
    return replace(term, label_selector=selector)


def with_label_keys(
    selector: LabelSelector | None,
    labels: Labels | None,
    *,
    match: t.Optional[tuple[str, ...]] = None,
    mismatch: t.Optional[tuple[str, ...]] = None,
) -> LabelSelector | None:
    """The selector with the pod's own values of ``matchLabelKeys`` and ``mismatchLabelKeys``; keys that it does not have do not count."""
    labels = labels or {}
    keys = [("In", key) for key in match or ()] + [("NotIn", key) for key in mismatch or ()]
    own = [LabelSelectorRequirement(key=key, operator=operator, values=(labels[key],)) for operator, key in keys if key in labels]
    if selector is None or not own:
        return selector
    return replace(selector, match_expressions=(*(selector.match_expressions or ()), *own))


def pod_of_workload(workload: Workload, *, ordinal: t.Optional[int] = None, revision: str = NEXT_REVISION) -> Pod:
    """The pod that the workload would make: its template's, with what the controllers add.

    That is the labels of ``revision`` (that of a restart, unless given), and for a StatefulSet the labels and the claims of the
    replica ``ordinal`` (its first, unless given).
    """
    number = workload.first_ordinal if ordinal is None else ordinal
    template = workload.spec.template
    labels = {**(template.metadata.labels or {}), **_controller_labels(workload, number, revision)}
    pod = pod_of_template(workload.metadata.namespace, replace(template, metadata=replace(template.metadata, labels=labels)))
    claims = workload.spec.volume_claim_templates or ()
    if not claims:
        return pod
    number = workload.first_ordinal if ordinal is None else ordinal
    own = [
        Volume(
            name=claim.metadata.name,
            persistent_volume_claim=ClaimVolumeSource(
                claim_name=f"{claim.metadata.name}-{workload.metadata.name}-{number}",
                made_from=claim,
            ),
        )
        for claim in claims
    ]
    # Like its controller does: a claim takes the place of the template's volume of the same name.
    names = {volume.name for volume in own}
    kept = [volume for volume in pod.spec.volumes or () if volume.name not in names]
    return replace(pod, spec=replace(pod.spec, volumes=(*kept, *own)))


def _controller_labels(workload: Workload, ordinal: int, revision: str) -> Labels:
    """Kubernetes ``pkg/controller``: ``deployment/sync.go`` and ``statefulset/stateful_set_utils.go``."""
    if workload.kind != "StatefulSet":
        return {POD_TEMPLATE_HASH: revision}
    return {
        CONTROLLER_REVISION_HASH: revision,
        STATEFUL_SET_POD_NAME: f"{workload.metadata.name}-{ordinal}",
        POD_INDEX: str(ordinal),
    }
