# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The traffic of one node as the agent ``network_traffic`` sees it."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ..measurements import oldest
from .bandwidth import BITS_PER_BYTE

ASSUMED_BYTES_PER_S = 1e9 / BITS_PER_BYTE
"""The speed of a link if no node of the cluster knows its speed: 1 Gbit/s."""


class Traffic(t.NamedTuple):
    """The traffic of a node. ``problem`` says why it is unknown; the other fields do not count then.

    ``rate`` and ``speed``: bytes per second; ``speed`` is None if it is unknown. ``added``: the part of ``rate`` for new pods,
    less that of ended ones. ``measured``: the rate without that part. ``measured_pods``: the pods whose traffic is in it.
    ``undeclared_pods``: the new pods without a declared bandwidth. A pod that has run for half of the window is half a pod in both.
    """

    rate: float = 0.0
    measured: float = 0.0
    added: float = 0.0
    direction: str = ""
    devices: tuple[str, ...] = ()
    speed: float | None = None
    measured_at_s: float | None = None
    problem: str = ""
    measured_pods: float = 0.0
    undeclared_pods: float = 0.0


def busiest(directions: Sequence[Traffic], estimates: Mapping[str, float]) -> Traffic:
    """Return the direction with the most traffic, with an estimate of the pods that declare none."""
    unknown = next((one for one in directions if one.problem), None)
    if unknown is not None:
        return unknown
    rates = [one.rate + _of_undeclared_pods(one, estimates) for one in directions]
    rate = max(rates)
    found = directions[rates.index(rate)]
    measured = max(one.measured for one in directions)
    if len(directions) == 1 and rate == found.rate:
        return found
    measured_at_s = oldest(one.measured_at_s for one in directions)
    return found._replace(rate=rate, measured=measured, added=found.added + rate - found.rate, measured_at_s=measured_at_s)


def most_of_one_pod(speed: float | None, measured: float) -> float:
    """Return the most bytes per second that one pod can have."""
    return speed if speed is not None else max(ASSUMED_BYTES_PER_S, measured)


def _of_undeclared_pods(traffic: Traffic, estimates: Mapping[str, float]) -> float:
    """Return the bytes per second of the new pods that declare none. One pod counts with at most the speed of the link."""
    if not traffic.undeclared_pods:
        return 0.0
    return traffic.undeclared_pods * min(most_of_one_pod(traffic.speed, traffic.measured), estimates[traffic.direction])
