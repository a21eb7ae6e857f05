# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The traffic of one node as the agent ``network_traffic`` sees it."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Mapping, Sequence

from ..measurements import oldest
from .devices import Link


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
