# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The demand of a pod: its requests, and the bandwidth that its annotations declare."""

from __future__ import annotations

from collections.abc import Mapping

from .....plugins.module_utils.model.api.pod import Pod
from .....plugins.module_utils.model.values.quantity import QuantityError, parse_quantity, value
from .....plugins.module_utils.scheduler.pod_requests import pod_requests
from ...interface import Demand
from ...memory_limits import limited_requests

INGRESS_BANDWIDTH = "kubernetes.io/ingress-bandwidth"
EGRESS_BANDWIDTH = "kubernetes.io/egress-bandwidth"

LEAST_BANDWIDTH, MOST_BANDWIDTH = 1_000, 10**15
"""Bits per second, 1k and 1P. The bandwidth plugin of Kubernetes refuses a pod whose annotation is outside these limits."""


def demand_of(pod: Pod, annotations: Mapping[str, str], *, from_status: bool = True) -> Demand:
    """Return the demand of a pod, with a limited number of resources.

    ``from_status``: as for ``pod_requests``. Raises QuantityError if a request is not a quantity.
    """
    ingress, egress = (_bandwidth(annotations, key) for key in (INGRESS_BANDWIDTH, EGRESS_BANDWIDTH))
    return Demand(limited_requests(pod_requests(pod, from_status=from_status)), ingress, egress)


def _bandwidth(annotations: Mapping[str, str], key: str) -> int | None:
    """Return the bandwidth in bits per second that a pod declares, or None.

    A text that is no quantity, or one that Kubernetes' bandwidth plugin would refuse, counts as absent.
    """
    text = annotations.get(key)
    if text is None:
        return None
    try:
        bits_per_s = value(parse_quantity(text))
    except QuantityError:
        return None
    return bits_per_s if LEAST_BANDWIDTH <= bits_per_s <= MOST_BANDWIDTH else None
