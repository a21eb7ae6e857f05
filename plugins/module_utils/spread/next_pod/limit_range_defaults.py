# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Requests and limits that the LimitRanges of a namespace give to containers of a new pod.

Source: kubernetes ``plugin/pkg/admission/limitranger/admission.go`` (PodMutateLimitFunc).
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from ...model.api.meta import ResourceList
from ...model.api.namespace import LimitRange
from ...model.api.pod import Container, PodSpec, PodTemplate, ResourceRequirements, with_containers
from ...model.codec import replace
from ...model.reason import PASSED, Reason, Reasons

GIVEN = "kubernetes.io/limit-ranger"
"""The annotation in which the API server records the defaults that it gave to each container of a pod."""

_ENTRY = re.compile(r"(.+) (request|limit) for (?:init )?container (.+)")


class LimitRangeDefaults(t.NamedTuple):
    """The default requests and limits of a namespace. ``contested``: resources for which two LimitRanges give different amounts."""

    requests: ResourceList
    limits: ResourceList
    contested: frozenset[str]

    @classmethod
    def of(cls, ranges: t.Iterable[LimitRange]) -> LimitRangeDefaults:
        """Return the defaults of all LimitRanges of one namespace."""
        requests: ResourceList = {}
        limits: ResourceList = {}
        contested: set[str] = set()
        for limit_range in ranges:
            for total, one in ((requests, _merged(limit_range, "default_request")), (limits, _merged(limit_range, "default"))):
                contested.update(name for name, amount in one.items() if total.get(name, amount) != amount)
                total.update(one)
        return cls(requests, limits, frozenset(contested))

    def fill(self, spec: PodSpec) -> tuple[PodSpec, Reasons]:
        """Return the spec with defaults for containers that have no value, and the reasons why a default is not known."""
        if not (self.requests or self.limits):
            return spec, PASSED
        lacking = {name for container in spec.all_containers for name in self.contested - _own(container)}
        unknown = tuple(
            Reason(
                "limit_range", f"two LimitRanges of the namespace have different defaults for {name}, and it is unknown which one counts"
            )
            for name in sorted(lacking)
        )
        return with_containers(spec, self._filled), unknown

    def _filled(self, container: Container) -> Container:
        resources = container.resources or ResourceRequirements()
        requests = {**(resources.limits or {}), **(resources.requests or {})}  # the API server derives requests from limits first
        requests, limits = {**self.requests, **requests}, {**self.limits, **(resources.limits or {})}
        return replace(container, resources=ResourceRequirements(requests or None, limits or None))


def without_given(spec: PodSpec, annotations: Mapping[str, str] | None, template: PodTemplate) -> PodSpec:
    """Return the spec of an existing pod without the values from LimitRanges, which may give other values now.

    Values that the template sets are kept. If the template itself has the annotation, the annotation is ignored.
    """
    forged = GIVEN in (template.metadata.annotations or {})
    text = "" if forged else (annotations or {}).get(GIVEN, "")
    given: set[tuple[str, str, str]] = set()
    for entry in text.partition(": ")[2].split("; "):
        found = _ENTRY.fullmatch(entry)
        if found is not None:
            given.update((found[3], found[2], name) for name in found[1].split(", "))
    if not given:
        return spec
    own = {container.name: _own_by_part(container) for container in template.spec.all_containers}

    def take(container: Container) -> Container:
        wanted, resources = own.get(container.name, {}), container.resources or ResourceRequirements()

        def kept(part: str, amounts: t.Optional[ResourceList]) -> t.Optional[ResourceList]:
            names = [name for name in amounts or () if name in wanted.get(part, ()) or (container.name, part, name) not in given]
            return {name: (amounts or {})[name] for name in names} or None

        return replace(container, resources=ResourceRequirements(kept("request", resources.requests), kept("limit", resources.limits)))

    return with_containers(spec, take)


def _own(container: Container) -> set[str]:
    resources = container.resources
    return set() if resources is None else {*(resources.requests or ()), *(resources.limits or ())}


def _own_by_part(container: Container) -> dict[str, set[str]]:
    """Return the resources for which the container itself has a request or a limit. A limit implies a request."""
    limits = set((container.resources.limits if container.resources is not None else None) or ())
    return {"request": _own(container), "limit": limits}


def _merged(limit_range: LimitRange, part: str) -> ResourceList:
    """Return the defaults of one LimitRange. The later of two items for containers has precedence."""
    found: ResourceList = {}
    for item in limit_range.spec.limits or ():
        if item.type == "Container":
            found.update(getattr(item, part) or {})
    return found
