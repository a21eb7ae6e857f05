# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The pod that a restart or an eviction creates: the workload's template as admission changes it.

Admission plugins, webhooks and policies add node selectors, sidecars and requests to pods and do not change the template. Their changes to
a new pod are derived from the live pods of the current revision.
"""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Sequence

from ...model.api.pod import Pod, PodSpec, PodTemplate
from ...model.api.workload import Workload
from ...model.codec import replace
from ...model.pod_template import next_revision, pod_of_workload
from ...model.reason import PASSED, Reason, Reasons
from ...model.selectors.match_label_keys import with_label_value
from ...model.snapshot import ClusterSnapshot
from ...model.undecodable import undecodable_of
from ...model.well_known import CONTROLLER_REVISION_HASH, POD_TEMPLATE_HASH
from ...scheduler.unknowns.too_many_rules import without_excess_rules
from .limit_range_defaults import LimitRangeDefaults, without_given
from .pod_labels import labels_of_new_pod
from .sample_pod import SamplePod, differing_field

_RUNTIME_CLASS = Reason("runtime_class", "the overhead that the runtime class adds to the pod is not known")


class NextPod(t.NamedTuple):
    """The next pod of a workload.

    ``unknown`` are the reasons why its spec is not certain. If the live pods differ or cannot be decoded, ``pod`` is made from the template
    alone.
    """

    pod: Pod
    unknown: Reasons


def next_pod(
    workload: Workload, snapshot: ClusterSnapshot, *, ordinal: t.Optional[int] = None, revision: t.Optional[str] = None
) -> NextPod:
    """Return the pod that the workload's controller creates next, as admission changes it.

    It has the labels of ``revision`` (by default the revision of a restart). For a StatefulSet it has the labels and the claims of the
    replica ``ordinal`` (by default the first).
    """
    admitted = _admitted(workload, snapshot)
    number = ordinal if workload.kind == "StatefulSet" else None
    revision = revision or next_revision(workload)
    known = admitted.made.get((number, revision))
    if known is None:
        known = NextPod(_make(admitted, workload, number, revision), admitted.unknown)
        if number is None:
            admitted.made[number, revision] = known
    return known


def _make(admitted: _Admitted, workload: Workload, ordinal: t.Optional[int], revision: str) -> Pod:
    like = replace(workload, spec=replace(workload.spec, template=admitted.template))
    pod = pod_of_workload(like, ordinal=ordinal, revision=revision)
    if admitted.revision and (pod.spec.affinity is not None or pod.spec.topology_spread_constraints):
        key = CONTROLLER_REVISION_HASH if workload.kind == "StatefulSet" else POD_TEMPLATE_HASH
        spec = with_label_value(pod.spec, key, admitted.revision, revision)
        return pod if spec is pod.spec else replace(pod, spec=spec)
    return pod


class _Admitted(t.NamedTuple):
    """The template as admission changes it.

    ``revision`` is the revision of the live pods that it was derived from; empty without such pods. ``made`` has next pods by ordinal and
    revision, because several decisions need the same pod.
    """

    template: PodTemplate
    revision: str
    unknown: Reasons
    made: dict[tuple[t.Optional[int], str], NextPod]


def _admitted(workload: Workload, snapshot: ClusterSnapshot) -> _Admitted:
    """Return the admitted template. It is computed once for each template of a snapshot."""
    uid, template, found = workload.metadata.uid, workload.spec.template, snapshot.once(_admitted_by_uid)
    known = found.get(uid)
    if known is None or known[0] is not template:
        known = found[uid] = (template, _work_out(workload, snapshot))
    return known[1]


def _admitted_by_uid(_snapshot: ClusterSnapshot) -> dict[str, tuple[PodTemplate, _Admitted]]:
    """Return an empty cache that ``_admitted`` fills."""
    return {}


def _work_out(workload: Workload, snapshot: ClusterSnapshot) -> _Admitted:
    pods = _live_pods(workload, snapshot)
    if not pods:
        return _of_template(workload, snapshot, PASSED)
    undecodable = next((one for one in map(undecodable_of, pods) if one is not None), None)
    if undecodable is not None:
        return _of_template(workload, snapshot, (undecodable.reason,))
    sample = SamplePod.of(pods)
    field = differing_field(sample, pods, workload) or sample.unsure_field(workload.spec.template)
    labels, unsure = labels_of_new_pod(pods, workload, snapshot)
    field = field or unsure
    if field:
        text = f"{field} of a new pod of {workload} is not known: the live pods differ in it, or it was changed after their creation"
        return _of_template(workload, snapshot, (Reason("pods_differ", text),))
    template = workload.spec.template
    spec = replace(
        _with_added_constraints(sample.spec(template), template),
        node_name=template.spec.node_name,
        scheduling_gates=_gates(template, pods),
    )
    defaults, known = _defaults(workload, snapshot)
    spec, unknown = defaults.fill(without_given(spec, sample.pod.metadata.annotations, template) if known else spec)
    spec, too_many = without_excess_rules(spec)
    metadata = replace(template.metadata, labels=labels)
    return _Admitted(replace(template, metadata=metadata, spec=spec), snapshot.revision(workload), (*unknown, *too_many), {})


def _with_added_constraints(spec: PodSpec, template: PodTemplate) -> PodSpec:
    """Return the spec with the constraints of the template for topology keys that the live pods have no constraint for.

    Such a template is that of a restart that adds constraints (``spread_constraints.py``), and has no pods yet.
    """
    present = {one.topology_key for one in spec.topology_spread_constraints or ()}
    added = [one for one in template.spec.topology_spread_constraints or () if one.topology_key not in present]
    return replace(spec, topology_spread_constraints=(*(spec.topology_spread_constraints or ()), *added)) if added else spec


def _live_pods(workload: Workload, snapshot: ClusterSnapshot) -> Sequence[Pod]:
    """Return the pods that were created from the workload's template and are neither terminated nor terminating."""
    if workload.metadata.generation > workload.status.observed_generation and not _is_current(workload, snapshot):
        return ()
    pods = [pod for pod in snapshot.current_pods(workload) if not pod.terminal and not pod.terminating]
    if workload.kind != "StatefulSet":
        return pods
    # Pods that a partition keeps at an older revision show the admission of another template.
    revision = workload.status.update_revision
    return [pod for pod in pods if (pod.metadata.labels or {}).get(CONTROLLER_REVISION_HASH, revision) == revision]


def _is_current(workload: Workload, snapshot: ClusterSnapshot) -> bool:
    """Return whether the current revision has this template, although the controller has not yet observed some change of the workload."""
    replica_set = snapshot.current_replica_set(workload) if workload.kind == "Deployment" else None
    if replica_set is None:
        return False
    template, known = workload.spec.template, replica_set.spec.template
    labels = {key: value for key, value in (known.metadata.labels or {}).items() if key != POD_TEMPLATE_HASH}
    same_metadata = labels == (template.metadata.labels or {}) and known.metadata.annotations == template.metadata.annotations
    return same_metadata and known.spec == template.spec


def _of_template(workload: Workload, snapshot: ClusterSnapshot, unknown: Reasons) -> _Admitted:
    """Return the template with the defaults of the namespace, without information from live pods."""
    template = workload.spec.template
    if not unknown and template.spec.runtime_class_name and template.spec.overhead is None:
        unknown = (_RUNTIME_CLASS,)
    spec, more = _defaults(workload, snapshot)[0].fill(template.spec)
    spec, too_many = without_excess_rules(spec)
    return _Admitted(template if spec is template.spec else replace(template, spec=spec), "", (*unknown, *more, *too_many), {})


def _defaults(workload: Workload, snapshot: ClusterSnapshot) -> tuple[LimitRangeDefaults, bool]:
    """Return the defaults of the LimitRanges in the workload's namespace, and whether the LimitRanges could be read."""
    namespace, found = workload.metadata.namespace, snapshot.once(_defaults_by_namespace)
    known = found.get(namespace)
    if known is None:
        readable = all(entry.resource != "limitranges" or entry.namespace not in ("", namespace) for entry in snapshot.skipped)
        readable = readable and snapshot.undecodable_in(namespace, "LimitRange") is None
        known = found[namespace] = (LimitRangeDefaults.of(snapshot.limit_ranges_by_namespace.get(namespace, ())), readable)
    return known


def _defaults_by_namespace(_snapshot: ClusterSnapshot) -> dict[str, tuple[LimitRangeDefaults, bool]]:
    """Return an empty cache that ``_defaults`` fills."""
    return {}


def _gates(template: PodTemplate, pods: Iterable[Pod]) -> t.Any:
    """Return the scheduling gates of a new pod: the gates of the template, and the gates that admission added.

    Running pods no longer have gates. Waiting pods still show the gates that admission added.
    """
    gated = [gate for pod in pods for gate in pod.spec.scheduling_gates or ()]
    return tuple(dict.fromkeys((*(template.spec.scheduling_gates or ()), *gated))) or None
