# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The traffic of the pods of a node that its measured rate does not show yet, or still shows."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable
from statistics import median_low

from ...interface import PodView
from ..new_pods import unmeasured_share
from .bandwidth import BITS_PER_BYTE
from .node_traffic import Traffic

LEAST_ESTIMATE_BYTES_PER_S = 10e6 / BITS_PER_BYTE
"""The least estimate of a new pod with ``estimate: auto``: 10 Mbit/s."""
MOST_ESTIMATE = 0.05
"""The largest estimate with ``estimate: auto``, as a share of the assumed speed."""


class PodTraffic(t.NamedTuple):
    """The traffic of the pods of a node. ``new``, ``ended``: the declared bytes per second that the rate does not show yet, or still shows.

    ``undeclared``, ``measured``: see ``Traffic``.
    """

    new: float
    ended: float
    undeclared: float
    measured: float


def pod_traffic(pods: Iterable[PodView], direction: str, *, measured_at_s: float, window_s: float, most: float, rate: float) -> PodTraffic:
    """Return the traffic of the pods of a node in one direction. A pod counts with at most ``most`` bytes per second.

    A pod that has ended counts only if it declared its bandwidth, because an estimate of it was never measured. It counts with at most the
    mean part of the measured ``rate``: an idle pod that declared much would hide the new pods of others.
    """
    new = undeclared = measured = 0.0
    ended: list[tuple[float, float]] = []
    for pod in pods:
        share, runs = unmeasured_share(pod, measured_at_s, window_s), pod.ended_at_s is None
        measured += runs - share
        if not share:
            continue
        declared = _declared_rate(pod, direction)
        if declared is None:
            undeclared += share if runs else 0.0
        elif runs:
            new += share * min(most, declared)
        else:
            ended.append((-share, min(most, declared)))
    still_shown = sum(part * min(declared, rate / measured) for part, declared in ended)
    return PodTraffic(new, still_shown, undeclared, measured)


def automatic_estimate(of_nodes: Iterable[Traffic], assumed_speed: float) -> float:
    """Return the bytes per second of a new pod that declares none, from the traffic of one direction on all nodes.

    It is the traffic of a node for each of its pods: the median of the nodes, so that one node with other traffic changes little. It is
    limited, because on nodes with few pods most of the traffic can be that of the nodes themselves.
    """
    known = [one for one in of_nodes if not one.problem]
    of_pods = [one.main.measured / one.measured_pods for one in known if one.measured_pods >= 1]
    return max(LEAST_ESTIMATE_BYTES_PER_S, min(MOST_ESTIMATE * assumed_speed, median_low(of_pods or [0.0])))


def _declared_rate(pod: PodView, direction: str) -> float | None:
    bits = pod.demand.ingress_bits_per_s if direction == "receive" else pod.demand.egress_bits_per_s
    return None if bits is None else bits / BITS_PER_BYTE
