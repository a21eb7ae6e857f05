# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The traffic of one node as the agent ``network_traffic`` sees it."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence

from ..measurements import oldest
from .bandwidth import BITS_PER_BYTE
from .devices import Link

ASSUMED_BYTES_PER_S = 1e9 / BITS_PER_BYTE
"""The speed of a link if no node of the cluster knows its speed: 1 Gbit/s."""


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
    """The link of a node that counts, of ``links``. ``rate``: bytes per second with those of new pods, which are ``added``."""

    link: Link = Link((), 0.0)
    direction: str = ""
    rate: float = 0.0
    added: float = 0.0
    links: int = 0
    measured_at_s: float | None = None
    problem: str = ""


def fullest_of(directions: Sequence[Traffic], estimates: Mapping[str, float], assumed_speed: float, *, by_rate: bool) -> Fullest:
    """Return the link with the largest utilisation of all directions, or with the largest rate if ``by_rate``.

    ``estimates``: the bytes per second of a new pod that declares none, by direction. ``assumed_speed``: that of links that report none.
    """
    unknown = next((one for one in directions if one.problem), None)
    if unknown is not None:
        return Fullest(measured_at_s=unknown.measured_at_s, problem=unknown.problem)
    measured_at_s = oldest(one.measured_at_s for one in directions)
    found = []
    for one in directions:
        added = one.added + _of_undeclared_pods(one, estimates)
        for link in one.links:
            rate = link.measured + added
            found.append(Fullest(link, one.direction, rate, added, len(one.links), measured_at_s))
            added = 0.0
    return max(found, key=lambda one: one.rate if by_rate else one.rate / (one.link.speed or assumed_speed))


def most_of_one_pod(link: Link) -> float:
    """Return the most bytes per second that one pod can have."""
    return link.speed if link.speed is not None else max(ASSUMED_BYTES_PER_S, link.measured)


def _of_undeclared_pods(traffic: Traffic, estimates: Mapping[str, float]) -> float:
    """Return the bytes per second of the new pods that declare none. One pod counts with at most the speed of the link."""
    if not traffic.undeclared_pods:
        return 0.0
    return traffic.undeclared_pods * min(most_of_one_pod(traffic.main), estimates[traffic.direction])
