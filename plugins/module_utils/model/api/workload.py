# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Deployments, StatefulSets and ReplicaSets (apps/v1), Jobs (batch/v1) and HorizontalPodAutoscalers (autoscaling/v2)."""

from __future__ import annotations

import typing as t

from ..codec import field
from .meta import ApiStruct, Condition, IntOrString, LabelSelector, ManagedFieldsEntry, ObjectMeta
from .pod import PodTemplate
from .volume import VolumeClaimTemplate

WORKLOAD_KINDS = ("Deployment", "StatefulSet")
"""The workloads that are checked and restarted."""


class RollingUpdate(ApiStruct, frozen=True):
    """Limits of a rolling update, as numbers or percentages. Only StatefulSets have ``partition``."""

    max_unavailable: t.Optional[IntOrString] = None
    max_surge: t.Optional[IntOrString] = None
    partition: t.Optional[int] = None


class UpdateStrategy(ApiStruct, frozen=True):
    """``strategy`` of a Deployment, or ``updateStrategy`` of a StatefulSet."""

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
    min_ready_seconds: int = 0
    strategy: t.Optional[UpdateStrategy] = None
    update_strategy: t.Optional[UpdateStrategy] = None
    volume_claim_templates: t.Optional[tuple[VolumeClaimTemplate, ...]] = None
    ordinals: t.Optional[StatefulSetOrdinals] = None
    pod_management_policy: str = ""


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


class FieldManager(ManagedFieldsEntry, frozen=True):
    """A program that has written fields of an object. The values are not checked, so that none makes the object undecodable."""

    manager: t.Any = ""
    subresource: t.Any = ""


class WorkloadMetadata(ObjectMeta, frozen=True):
    """The metadata of a workload. Only here the names of the managers are read: there are many more pods, and each has its own entries."""

    managed_fields: t.Optional[tuple[FieldManager, ...]] = None


class Workload(ApiStruct, frozen=True):
    """A Deployment, StatefulSet or ReplicaSet. The API omits ``kind`` in lists, and the reader sets it."""

    kind: str = ""
    metadata: WorkloadMetadata = field(default_factory=WorkloadMetadata)
    spec: WorkloadSpec = field(default_factory=WorkloadSpec)
    status: WorkloadStatus = field(default_factory=WorkloadStatus)

    @property
    def first_ordinal(self) -> int:
        """Return the ordinal of a StatefulSet's first replica."""
        return self.spec.ordinals.start if self.spec.ordinals is not None else 0

    def __str__(self) -> str:
        return f"{self.kind} {self.metadata.namespace}/{self.metadata.name}"


class PodConditionPattern(ApiStruct, frozen=True):
    """A condition of a failed pod that a rule matches."""

    type: str = ""
    status: str = "True"


class PodFailureRule(ApiStruct, frozen=True):
    """The action of a Job for a failed pod. The first rule that matches applies."""

    action: str = ""
    on_pod_conditions: t.Optional[tuple[PodConditionPattern, ...]] = None


class PodFailurePolicy(ApiStruct, frozen=True):
    """The pod failure rules of a Job."""

    rules: tuple[PodFailureRule, ...] = ()


class JobSpec(ApiStruct, frozen=True):
    """The fields of a Job's spec that are used here."""

    pod_failure_policy: t.Optional[PodFailurePolicy] = None


class Job(ApiStruct, frozen=True):
    """A Job."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: JobSpec = field(default_factory=JobSpec)

    @property
    def ignores_disruptions(self) -> bool:
        """Return whether an eviction of a pod of the Job does not count as a failure.

        This is true if the first rule that matches the condition DisruptionTarget has the action Ignore.
        """
        policy = self.spec.pod_failure_policy
        for rule in policy.rules if policy is not None else ():
            if any(pattern.type == "DisruptionTarget" and pattern.status == "True" for pattern in rule.on_pod_conditions or ()):
                return rule.action == "Ignore"
        return False


class CrossVersionObjectReference(ApiStruct, frozen=True):
    """The workload that an autoscaler scales."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class HorizontalPodAutoscalerSpec(ApiStruct, frozen=True):
    """Target and limits of an autoscaler."""

    scale_target_ref: CrossVersionObjectReference = field(default_factory=CrossVersionObjectReference)
    min_replicas: t.Optional[int] = None
    max_replicas: int = 0


class HorizontalPodAutoscalerStatus(ApiStruct, frozen=True):
    """The number of replicas that the autoscaler has computed."""

    desired_replicas: int = 0
    conditions: t.Optional[tuple[Condition, ...]] = None


class HorizontalPodAutoscaler(ApiStruct, frozen=True):
    """A HorizontalPodAutoscaler."""

    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: HorizontalPodAutoscalerSpec = field(default_factory=HorizontalPodAutoscalerSpec)
    status: HorizontalPodAutoscalerStatus = field(default_factory=HorizontalPodAutoscalerStatus)

    @property
    def wanted_replicas(self) -> int:
        """The number of replicas to which it scales the workload. 0 if it scales it to none.

        Without any metric it does not scale, and its status keeps an old number (pkg/controller/podautoscaler/horizontal.go:
        reconcileAutoscaler).
        """
        is_inactive = any(c.type == "ScalingActive" and c.status == "False" for c in self.status.conditions or ())
        return 0 if is_inactive else self.status.desired_replicas
