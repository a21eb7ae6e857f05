# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Taints and tolerations (kubernetes ``plugins/tainttoleration/taint_toleration.go``, k8s.io/api ``core/v1/toleration.go``)."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Sequence

from ...model.api.node import Node, Taint
from ...model.api.pod import Pod, Toleration
from ...model.reason import PASSED, Reason, Reasons
from ...model.values.integers import parse_int64

UNTOLERATED: Reasons = (Reason("untolerated_taint", "node(s) had untolerated taint(s)"),)
CLOSING_EFFECTS = ("NoSchedule", "NoExecute")

_DECIMAL = re.compile(r"-?[1-9][0-9]*|0")


def pre_filter(pod: Pod) -> t.Callable[[Node], Reasons] | None:
    """Return the check that rejects nodes with a NoSchedule or NoExecute taint that the pod does not tolerate."""
    tolerations = pod.spec.tolerations or ()

    def check(node: Node) -> Reasons:
        taints = node.spec.taints
        return UNTOLERATED if taints and untolerated(taints, tolerations) is not None else PASSED

    return check


def untolerated(taints: Sequence[Taint], tolerations: Sequence[Toleration]) -> Taint | None:
    """Return the first NoSchedule or NoExecute taint that these tolerations do not tolerate. Return None if there is none."""
    return next((taint for taint in taints if taint.effect in CLOSING_EFFECTS and not tolerates(tolerations, taint)), None)


def tolerates(tolerations: Sequence[Toleration], taint: Taint) -> bool:
    """Return whether one of the tolerations tolerates the taint.

    Lt and Gt compare numbers and need the feature gate TaintTolerationComparisonOperators (off by default in 1.36). Without it the API
    server admits no pod that uses them.
    """
    return any(_is_for(toleration, taint) for toleration in tolerations)


def _is_for(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    if toleration.operator == "Exists":
        return True
    bound, number = _number(toleration.value), _number(taint.value)
    if bound is None or number is None:
        return False
    return (toleration.operator == "Lt" and number < bound) or (toleration.operator == "Gt" and number > bound)


def _number(text: str) -> int | None:
    """Return the 64-bit integer in canonical form: no plus sign, no leading zeros. Return None for any other text."""
    return parse_int64(text) if _DECIMAL.fullmatch(text) else None
