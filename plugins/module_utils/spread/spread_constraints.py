# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The topology spread constraints that make the spread of a workload last, and the patch that adds them to its pod template."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Sequence

from ..model.api.pod import Pod, TopologySpreadConstraint
from ..model.api.workload import Workload
from ..model.codec import decode_json, encode_json, replace
from ..model.snapshot import ClusterSnapshot
from ..model.well_known import CONTROLLER_REVISION_HASH, HOSTNAME, POD_TEMPLATE_HASH, ZONE
from .topology.topology import Topology

Json = dict[str, t.Any]

REVISION_LABELS = {"Deployment": POD_TEMPLATE_HASH, "StatefulSet": CONTROLLER_REVISION_HASH}
"""The label of a pod that has its revision. With it in ``matchLabelKeys``, only the new pods count during a rollout."""

_SYSTEM_DEFAULT_KEYS = (HOSTNAME, ZONE)
"""The topology keys of the scheduler's own default constraints (kubernetes ``plugins/podtopologyspread/plugin.go``)."""


def missing_constraints(
    workload: Workload, pod: Pod, snapshot: ClusterSnapshot, eligible: tuple[str, ...], topology_keys: Sequence[str]
) -> tuple[TopologySpreadConstraint, ...]:
    """Return the constraints for the topology keys that the workload has no constraint for.

    ``pod`` is its next pod, which has the constraints of the template and of admission. ``eligible``: its eligible nodes.

    Any constraint disables the default constraints of the scheduler (kubernetes ``plugins/podtopologyspread/common.go``,
    buildDefaultConstraints). For a pod without constraints, the result therefore also has the default constraints of its profile. Of two
    with the same topology key it has the one with DoNotSchedule, because a patch merges by the key. If the profile has no soft ones of its
    own, the result has the topology keys of the system defaults. Such a key is left out if an eligible node lacks it as a label, because
    the scheduler gives such a node the lowest score for all constraints (``scoring.go``, initPreScoreState).
    """
    present = {one.topology_key for one in pod.spec.topology_spread_constraints or ()}
    present.update(one.topology_key for one in workload.spec.template.spec.topology_spread_constraints or ())
    found: dict[str, TopologySpreadConstraint] = {}
    keys = [*topology_keys]
    if not present:
        profile = snapshot.profile_of(pod)
        soft = profile.scores.default_constraints
        for one in (*profile.default_constraints, *(soft or ())):
            found.setdefault(one.topology_key, one)
        if soft is None:
            topology = snapshot.once(Topology.of)
            keys += [key for key in _SYSTEM_DEFAULT_KEYS if topology.missing_label_violation([key], eligible) is None]
    for key in keys:
        if key not in present:
            found.setdefault(key, TopologySpreadConstraint(max_skew=1, topology_key=key, when_unsatisfiable="ScheduleAnyway"))
    label_keys = (REVISION_LABELS[workload.kind],)
    return tuple(replace(one, label_selector=workload.spec.selector, match_label_keys=label_keys) for one in found.values())


def with_constraints(workload: Workload, constraints: Sequence[TopologySpreadConstraint]) -> Workload:
    """Return the workload with these constraints added to its pod template."""
    template = workload.spec.template
    merged = (*(template.spec.topology_spread_constraints or ()), *constraints)
    spec = replace(template.spec, topology_spread_constraints=merged)
    return replace(workload, spec=replace(workload.spec, template=replace(template, spec=spec)))


def constraint_patch(workload: Workload, constraints: Iterable[TopologySpreadConstraint]) -> Json:
    """Return the complete strategic merge patch that adds the constraints to the workload's pod template."""
    return template_patch(workload, map(constraint_fields, constraints))


def template_patch(workload: Workload, entries: Iterable[Json]) -> Json:
    """Return a complete strategic merge patch of the workload's constraints, for ``kubectl patch --patch-file`` and kustomize.

    The list is merged by ``topologyKey`` (k8s.io/api ``core/v1/types.go``), so an entry changes the constraint of its key or is added, and
    all other constraints of the template stay.
    """
    metadata = workload.metadata
    return {
        "apiVersion": "apps/v1",
        "kind": workload.kind,
        "metadata": {"namespace": metadata.namespace, "name": metadata.name},
        "spec": {"template": {"spec": {"topologySpreadConstraints": list(entries)}}},
    }


def constraint_fields(constraint: TopologySpreadConstraint) -> Json:
    """Return the constraint as the API writes it."""
    # The encoder omits defaults, and the API requires maxSkew.
    return {"maxSkew": constraint.max_skew, **decode_json(dict[str, t.Any], encode_json(constraint))}
