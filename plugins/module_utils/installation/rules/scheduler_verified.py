# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The missing parts of the role extended_scheduler, and the sources of the extenders that fail.

These are in the words of the extenders, which have checked them with ``--check-sources``. The exit code is 2 for a problem of the
sources. With another one, the check could not be made.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator, Mapping

START = "extender: "
SINGLE_NODES = re.compile(f": no fresh value for (?!any of )|^{START}(node_exporter: node |note: )")
"""Such a node gets the median score of the others, for example a control plane without node_exporter. Notes are no problems."""


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for what is missing, for each source that fails, and for each agent without any value."""
    found = list(variables["__extended_scheduler_missing"])
    if variables["extended_scheduler_shape"] != "second_scheduler":
        found += variables["__extended_scheduler_all_errors"] + variables["__extended_scheduler_of_plan"]["missing"]
        found += [text for answer in variables["__extended_scheduler_found"].values() for text in answer.get("missing", ())]
    for place, check in _checks(variables):
        if check.get("rc") == 2:
            found += [f"{place}: {line}" for line in _lines(check, of_single_nodes=False)]
    return list(dict.fromkeys(found))


def remarks(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each node without a value, and for each check that could not be made."""
    found = []
    if variables["extended_scheduler_shape"] == "systemd":
        hosts = ", ".join(variables["__extended_scheduler_hosts"])
        found.append(f"The sources of the extenders on {hosts} are not checked by this playbook. The page of an extender shows them.")
    for place, check in _checks(variables):
        if check.get("rc") not in (0, 2):
            reason = check.get("stderr") or check.get("msg") or f"exit code {check.get('rc')}"
            found.append(f"The sources of {place} are not checked: {' '.join(reason.split())[:600]}")
        found += [f"{place}: {line}" for line in _lines(check, of_single_nodes=True)]
    return found


def _checks(variables: Mapping[str, t.Any]) -> Iterator[tuple[str, Mapping[str, t.Any]]]:
    for check in (variables["__extended_scheduler_checked_sources"] or {}).get("results") or ():
        if not check.get("skipped"):
            pod, extender = check["item"]
            place = f"Pod {pod}" if variables["extended_scheduler_shape"] == "kubeadm" else "the scheduler"
            yield f"{extender['name']} of {place}", check


def _lines(check: Mapping[str, t.Any], *, of_single_nodes: bool) -> list[str]:
    lines = [line for line in str(check.get("stderr") or "").splitlines() if line.startswith(START) or SINGLE_NODES.search(line)]
    return [line.removeprefix(START) for line in lines if bool(SINGLE_NODES.search(line)) is of_single_nodes]
