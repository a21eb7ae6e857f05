# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The traffic of one node as the agent ``network_traffic`` sees it: its links, its new pods, and what is assumed where nothing is known."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from statistics import median_low

from ...interface import PodView
from ..measurements import oldest, unmeasured_share
from .bandwidth import BITS_PER_BYTE
from .devices import Link

ASSUMED_BYTES_PER_S = 1e9 / BITS_PER_BYTE
"""The speed of a link if no node of the cluster knows its speed: 1 Gbit/s."""

MOST_OF_ONE_NODE = 10e9 / BITS_PER_BYTE
"""The largest speed that is assumed because of one node alone: 10 Gbit/s."""

MOST_ABOVE_NEXT = 2.0
"""The largest rate counts as at most this multiple of the second largest."""

LEAST_ESTIMATE_BYTES_PER_S = 10e6 / BITS_PER_BYTE
"""The least estimate of a new pod with ``estimate: auto``: 10 Mbit/s."""
MOST_ESTIMATE = 0.05
"""The largest estimate with ``estimate: auto``, as a share of the assumed speed."""


class Traffic(t.NamedTuple):
    """The traffic of a node in one direction. ``problem`` says why it is unknown; the other fields do not count then.

    ``links``: the one with the most traffic first. New pods count there, because it is the one that pods use most. ``ignored``: a device
    that does not count although it has more traffic than all links. ``added``: the declared bytes per second of new pods, less those of
    ended ones. ``measured_pods``: the pods whose traffic is measured. ``undeclared_pods``: the new pods without a declared bandwidth. A pod
    that has run for half of the window is half a pod in both.
    """

    links: Sequence[Link] = ()
    direction: str = ""
    ignored: str = ""
    added: float = 0.0
    measured_at_s: float | None = None
    problem: str = ""
    measured_pods: float = 0.0
    undeclared_pods: float = 0.0

    @property
    def main(self) -> Link:
        """Return the link with the most traffic."""
        return self.links[0]


class Fullest(t.NamedTuple):
    """The link of a node that counts, of ``traffic``. The other fields do not count if the traffic has a problem.

    ``rate``: bytes per second with those of new pods, which are ``added``. ``speed``: bytes per second, which can be assumed.
    """

    traffic: Traffic = Traffic()
    measured_at_s: float | None = None
    link: Link = Link((), 0.0)
    rate: float = 0.0
    added: float = 0.0
    speed: float = math.inf

    @property
    def share(self) -> float:
        """Return the share of the speed."""
        return self.rate / self.speed


def fullest_of(directions: Sequence[Traffic], estimates: Mapping[str, float], assumed_speed: float, *, by_rate: bool) -> Fullest:
    """Return the link with the largest utilisation of all directions, or with the largest rate if ``by_rate``.

    ``estimates``: the bytes per second of a new pod that declares none, by direction. ``assumed_speed``: that of links that report none.
    """
    unknown = next((one for one in directions if one.problem), None)
    if unknown is not None:
        return Fullest(unknown, unknown.measured_at_s)
    measured_at_s = oldest(one.measured_at_s for one in directions)
    found = []
    for one in directions:
        # One pod counts with at most the speed of the link.
        main_speed = speed_of(one.main, assumed_speed, one.main.measured)
        added = one.added + (one.undeclared_pods * min(main_speed, estimates[one.direction]) if one.undeclared_pods else 0.0)
        for link in one.links:
            rate = link.measured + added
            found.append(Fullest(one, measured_at_s, link, rate, added, speed_of(link, assumed_speed, rate)))
            added = 0.0
    return max(found, key=lambda one: one.rate if by_rate else one.share)


def speed_of(link: Link, assumed_speed: float, rate: float) -> float:
    """Return the speed of a link. One that reports none has the assumed speed, or its rate if that is more."""
    return link.speed or max(assumed_speed, rate)


# --- new pods ---


def with_pods(traffic: Traffic, pods: Iterable[PodView], *, measured_at_s: float, window_s: float, most: float) -> Traffic:
    """Return the measured traffic with the new and the ended pods of the node. A pod counts with at most ``most`` bytes per second.

    A pod that has ended counts only if it declared its bandwidth, because an estimate of it was never measured. It counts with at most the
    mean part of the measured rate: an idle pod that declared much would hide the new pods of others.
    """
    new = undeclared = measured = 0.0
    ended: list[tuple[float, float]] = []
    for pod in pods:
        share, runs = unmeasured_share(pod, measured_at_s, window_s), pod.ended_at_s is None
        measured += runs - share
        if not share:
            continue
        declared = _declared_rate(pod, traffic.direction)
        if declared is None:
            undeclared += share if runs else 0.0
        elif runs:
            new += share * min(most, declared)
        else:
            ended.append((-share, min(most, declared)))
    rate = traffic.main.measured
    still_shown = sum(part * min(declared, rate / measured) for part, declared in ended)
    added = max(0.0, new - min(still_shown, rate))
    return traffic._replace(added=added, measured_pods=measured, undeclared_pods=undeclared)


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


# --- links that report no speed ---


class AssumedSpeed(t.NamedTuple):
    """A speed in bytes per second, and its origin for people."""

    speed: float
    origin: str


def assumed_speed(speeds: Sequence[float], rates: Sequence[float]) -> AssumedSpeed:
    """Return the speed of nodes that report none. ``speeds``: the known ones, ``rates``: the traffic of each node, in bytes per second."""
    if speeds:
        middle = median_low(speeds)
        is_alone = len(speeds) == 1 < len(rates)
        return AssumedSpeed(min(middle, MOST_OF_ONE_NODE) if is_alone else middle, "the median of the other nodes")
    by_size = sorted(rates, reverse=True) or [0.0]
    largest = by_size[0] if len(by_size) == 1 else min(by_size[0], MOST_ABOVE_NEXT * by_size[1])
    return AssumedSpeed(max(ASSUMED_BYTES_PER_S, largest), "no node knows its speed")
