# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The result of evictions that spread the add-ons of a cluster, as sentences for people."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ..model.messages import pluralize
from ..spread.restart.actions import FAILED_ACTION, VANISHED, WOULD_EVICT, WOULD_EVICT_IF
from ..spread.verdict import SINGLE_DOMAIN, SPREAD

Json = Mapping[str, t.Any]

OFF = "-e '{\"site_spread_addons\": []}' leaves the add-ons out."


class AddonsText(t.NamedTuple):
    """A sentence for each add-on about which there is something to say, and the error, which is empty if no eviction has failed."""

    lines: list[str]
    error: str


def addons_text(results: Sequence[Json]) -> AddonsText:
    """Return the sentences for results of k8s_rollout_restart, also of check mode.

    A cluster that cannot be read, or a missing permission, is no error, because everything else of the playbook is done.
    """
    lines, errors = [], []
    for result in results:
        workloads = result.get("workloads") or []
        if not workloads:
            lines.append(f"The add-ons were not spread: {result.get('msg') or 'unknown error'}. {OFF}")
        for workload in workloads:
            line = _line(workload)
            if workload["action"] == FAILED_ACTION and workload.get("evicted"):
                errors.append(line)
            elif line:
                lines.append(line)
    return AddonsText(lines, "\n".join(errors))


def _line(workload: Json) -> str:
    """Return the sentence for one workload. It is empty if the workload is spread already."""
    name = f"{workload['kind']} {workload['namespace']}/{workload['name']}"
    message = (workload.get("message") or "").rstrip(".")
    evicted = len(workload.get("evicted") or ())
    if evicted:
        is_plan = workload["action"] in (WOULD_EVICT, WOULD_EVICT_IF)
        verb = "would be" if is_plan else "was" if evicted == 1 else "were"
        counts = workload.get("expected" if is_plan else "after") or {}
        places = ", ".join(f"{domain}={count}" for domains in counts.values() for domain, count in domains.items())
        found = f" Its replicas {'then' if is_plan else 'now'}: {places}." if places else ""
        return f"{name}: {pluralize(evicted, 'pod')} {verb} evicted: {message}.{found}"
    if workload.get("reason") == SPREAD:
        return ""
    if workload.get("reason") == SINGLE_DOMAIN:
        return f"{name}: fewer than two nodes can run its pods. The next run of this playbook spreads them as soon as a second node can."
    if workload.get("reason") == VANISHED:
        return f"There is no {name}, so it is not spread."
    return f"{name} was not spread: {message}.{f' {OFF}' if workload['action'] == FAILED_ACTION else ''}"
