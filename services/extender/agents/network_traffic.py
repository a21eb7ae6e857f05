# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agent ``network_traffic``: nodes with less traffic on their network links get higher scores.

``normalise: utilisation`` divides the traffic of each link by its speed, and the fullest link of a node counts. The score falls from 10
at 0 to 0 at ``worst_utilisation``, or at the utilisation of the busiest node if that is higher. An extender answers with eleven integers,
and without this scale most of them would belong to utilisations that do not occur. docs/development/placement.md has the effect.

``normalise: relative`` is the formula of the NetworkTraffic plugin of cylonchau/customScheduler, 100 − value·100/max, with a rate in place
of the value of a counter. The link with the most traffic counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ....plugins.module_utils.model.messages import listed
from ..interface import BEST_SCORE, Agent, Gauge, Judgement, LabelMatch, NodeView, PodView, Query, Rate, Series
from .measurements import age_violation, newest_by_label, oldest
from .network.arguments import AUTO, BOTH, RELATIVE, NetworkTrafficArgs
from .network.bandwidth import BITS_PER_BYTE, SPEED_METRIC, bit_text
from .network.devices import PROPERTIES, Device, DeviceFilter, Link, kind_of, links_of
from .network.node_traffic import AssumedSpeed, Fullest, Traffic, assumed_speed, automatic_estimate, fullest_of, speed_of, with_pods

SHOWN_NODES = 5
"""The names of nodes in a note."""

SET_DEVICE = "set device in the args of the agent"

COUNTERS = {"receive": "node_network_receive_bytes_total", "transmit": "node_network_transmit_bytes_total"}


@dataclass(frozen=True, slots=True)
class Prepared:
    """The traffic of all nodes of a refresh. Rates and speeds are in bytes per second.

    ``traffic``: by node, its state at the refresh, its traffic by direction without an estimate, and its fullest link.
    ``largest_rate``: the largest measured rate. ``assumed``: the speed of links that report none. ``estimates``: the rate of a new
    pod that declares none, by direction. ``worst``: the utilisation with the score 0. New pods count in it, up to the speed of a link.

    What was added for new pods does not count in ``largest_rate``, so that the annotation of one pod cannot make all other nodes equal.
    """

    traffic: dict[str, tuple[NodeView, Sequence[Traffic], Fullest]]
    largest_rate: float
    assumed: AssumedSpeed
    estimates: Mapping[str, float]
    worst: float


class NetworkTraffic(Agent):
    """Scores nodes by the traffic of their network links, and optionally rejects those above ``max_utilisation``."""

    name = "network_traffic"
    args_type = NetworkTrafficArgs
    can_filter = True
    value_unit = "bit/s"

    def __init__(self, args: NetworkTrafficArgs) -> None:
        super().__init__(args)
        self._directions = ("receive", "transmit") if args.direction == BOTH else (args.direction,)
        self._window_s = args.window
        self._by_rate = args.normalise == RELATIVE
        self._entries = [(re.compile(entry.nodes), DeviceFilter(entry.device, args.excluded)) for entry in args.entries]
        self._overrides = [(re.compile(entry.nodes), re.compile(entry.device), entry.speed) for entry in args.speeds]
        matching = "|".join(f"(?:{entry.device})" for entry in args.entries)
        conditions = (LabelMatch("device", matching), *([LabelMatch("device", args.excluded, negative=True)] if args.excluded else []))
        self._rates = {direction: Rate(COUNTERS[direction], self._window_s, conditions) for direction in self._directions}
        self._speed = Gauge(SPEED_METRIC, conditions)
        self._properties = tuple(Gauge(metric, conditions) for metric in PROPERTIES)

    @property
    def queries(self) -> Sequence[Query]:
        """Return the rates of the directions, the speed, and the properties of the devices."""
        return (*self._rates.values(), self._speed, *self._properties)

    @property
    def ineffective_filter(self) -> str:
        """Return the reason why no node is rejected."""
        return "max_utilisation is not set" if self.args.max_utilisation is None else ""

    def prepare(self, nodes: Sequence[NodeView], now_s: float) -> Prepared:
        """Return the traffic of all nodes, and what the links without a speed are compared with."""
        directions: list[Sequence[Traffic]] = [self._by_direction(node, now_s) for node in nodes]
        known = [found for found in directions if not any(one.problem for one in found)]
        speeds = [speed for found in known if (speed := next((link.speed for link in found[0].links if link.speed), None))]
        rates = [max(one.main.measured for one in found) for found in known]
        largest = max(rates, default=0.0)
        assumed = assumed_speed(speeds, rates)
        by_node = zip(nodes, directions, strict=True)
        directions = [[self._with_pods(one, node, assumed.speed, now_s) for one in found] for node, found in by_node]
        estimates = {direction: self._estimate(directions, direction, assumed.speed) for direction in self._directions}
        traffic = {
            node.name: (node, found, self._fullest(found, estimates, assumed.speed)) for node, found in zip(nodes, directions, strict=True)
        }
        # A link never has more traffic than its speed: such a speed is wrong, and does not set the scale for all nodes.
        highest = max((one.share for _node, _found, one in traffic.values() if one.link.measured_share <= 1), default=0.0)
        worst = max(self.args.worst_utilisation, min(1.0, highest))
        return Prepared(traffic, largest, assumed, estimates, worst)

    def judge(self, prepared: Prepared, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        """Return the score of a node by its fullest link. A link without a known speed is judged by an assumed one."""
        directions, one = self._newest(prepared, node, now_s)
        direction, links = one.traffic.direction, len(one.traffic.links)
        problem = one.traffic.problem or age_violation(COUNTERS[direction], one.measured_at_s, now_s, self.args.max_age_s)
        if problem:
            return Judgement(None, explanation=problem, measured_at_s=one.measured_at_s)
        if self._by_rate:
            share = worse = one.rate / max(prepared.largest_rate, one.rate) if one.rate > 0 else 0.0
            of, scale = f"{bit_text(one.rate)}, {share:.0%} of the largest rate", ""
        else:
            share = min(1.0, one.share)
            worse = share / max(prepared.worst, share)
            scale = f"; the score is 0 at {prepared.worst:.0%}"
            of = f"{share:.0%} of {bit_text(one.speed)}" + ("" if one.link.speed else f" (assumed: {prepared.assumed.origin})")
        others = f", the {'busiest' if self._by_rate else 'fullest'} of {links} links" if links > 1 else ""
        explanation = f"{of} on {', '.join(one.link.devices)}{others}, {direction}{_added_text(one)}{scale}"
        score = BEST_SCORE * (1.0 - worse)
        return Judgement(score, one.rate * BITS_PER_BYTE, explanation, one.measured_at_s, self._rejection(directions))

    def notes(self, prepared: Prepared, nodes: Sequence[NodeView], now_s: float) -> Sequence[str]:
        """Return what is assumed about the links of the nodes, and the devices that may be missing."""
        found: dict[str, list[str]] = {}
        for node in nodes:
            directions, one = self._newest(prepared, node, now_s)
            for text in self._doubts(directions, one):
                found.setdefault(text, []).append(node.name)
        return [f"{listed(names, SHOWN_NODES)}: {text}" for text, names in found.items()]

    def _doubts(self, directions: Sequence[Traffic], fullest: Fullest) -> Iterable[str]:
        if fullest.traffic.problem:
            return
        for one in directions:
            if one.ignored:
                than = f"has more traffic ({one.direction}) than {_devices_text(one.links)}"
                yield f"{one.ignored} {than}, and does not count: {SET_DEVICE} if it is a NIC"
        links = sorted(directions[0].links)
        if len(links) > 1:
            yield f"the fullest of {_devices_text(links)} counts: {SET_DEVICE} if pods use only one of them"
        assumed = [link for link in links if link.speed is None]
        if assumed and not self._by_rate:
            yield f"the speed of {_devices_text(assumed)} is assumed: set nodes, device and speed in speeds in the args of the agent"

    def _rejection(self, directions: Sequence[Traffic]) -> str:
        """Return the reason to reject a node. An assumed speed rejects none.

        Only what was measured counts. Otherwise one tenant could close all nodes for the others with annotations of idle pods.
        """
        limit = self.args.max_utilisation
        if limit is None:
            return ""
        link = max((link for one in directions for link in one.links), key=lambda link: link.measured_share)
        if link.speed is None or link.measured <= limit * link.speed:
            return ""
        return f"network traffic is {link.measured_share:.0%} of {bit_text(link.speed)}, and max_utilisation is {limit:.0%}"

    def _newest(self, prepared: Prepared, node: NodeView, now_s: float) -> tuple[Sequence[Traffic], Fullest]:
        """Return the traffic of a node with the pods that it has now. Its measured values are those of the refresh, or newer ones."""
        seen, directions, fullest = prepared.traffic.get(node.name, (None, (), Fullest()))
        if seen is node:
            return directions, fullest
        if seen is None or seen.series is not node.series:
            directions = self._by_direction(node, now_s)
        directions = [self._with_pods(one, node, prepared.assumed.speed, now_s) for one in directions]
        return directions, self._fullest(directions, prepared.estimates, prepared.assumed.speed)

    def _fullest(self, directions: Sequence[Traffic], estimates: Mapping[str, float], assumed_speed: float) -> Fullest:
        return fullest_of(directions, estimates, assumed_speed, by_rate=self._by_rate)

    def _by_direction(self, node: NodeView, now_s: float) -> list[Traffic]:
        """Return the measured traffic of each direction."""
        devices = next((found for nodes, found in self._entries if nodes.fullmatch(node.name)), None)
        if devices is None:
            return [Traffic(problem="no entry of devices matches this node")]
        rates = {direction: self._of_devices(node, query, devices) for direction, query in self._rates.items()}
        known = self._known_devices(node, devices, dict.fromkeys(device for found in rates.values() for device in found))
        return [self._direction(node, direction, found, known, now_s) for direction, found in rates.items()]

    def _estimate(self, of_nodes: Sequence[Sequence[Traffic]], direction: str, assumed_speed: float) -> float:
        """Return the bytes per second of a new pod that declares none."""
        if self.args.estimate != AUTO:
            return float(self.args.estimate)
        return automatic_estimate((one for found in of_nodes for one in found if one.direction == direction), assumed_speed)

    def _direction(self, node: NodeView, direction: str, rates: Mapping[str, Series], known: Mapping[str, Device], now_s: float) -> Traffic:
        counter = COUNTERS[direction]
        if not rates:
            return Traffic(problem=f"no value of {counter} is known")
        measured = {device: max(0.0, one.value) for device, one in rates.items()}
        found = links_of({device: Device(measured.get(device), one.speed, one.kind) for device, one in known.items()})
        if found.unmeasured:
            return Traffic(problem=f"no value of {counter} is known for {', '.join(found.unmeasured)}")
        measured_at_s = oldest(rates[device].measured_at_s for link in found.links for device in link.devices)
        problem = age_violation(counter, measured_at_s, now_s, self.args.max_age_s)
        if problem:
            return Traffic(measured_at_s=measured_at_s, problem=problem)
        speeds = [(devices, speed) for nodes, devices, speed in self._overrides if nodes.fullmatch(node.name)]
        links = found.links if not speeds else [link._replace(speed=_speed(link, speeds)) for link in found.links]
        return Traffic(links, direction, found.ignored, measured_at_s=measured_at_s)

    def _known_devices(self, node: NodeView, devices: DeviceFilter, names: dict[str, None]) -> dict[str, Device]:
        """Return the devices with these names and those that have a speed, without their rates.

        node_exporter writes −125000 bytes/s if the driver does not know the speed (node_exporter#1967), so only positive speeds count.
        """
        speeds = {device: one.value for device, one in self._of_devices(node, self._speed, devices).items() if one.value > 0}
        properties: dict[str, dict[str, float]] = {name: {} for name in (*names, *speeds)}
        for query in self._properties:
            for device, one in newest_by_label(node.series.get(query, ()), "device").items():
                properties.get(device, {})[query.metric] = one.value
        return {name: Device(None, speeds.get(name), kind_of(name, found)) for name, found in properties.items()}

    def _of_devices(self, node: NodeView, query: Query, devices: DeviceFilter) -> dict[str, Series]:
        found = newest_by_label(node.series.get(query, ()), "device")
        return {device: series for device, series in found.items() if devices.matches(device)}

    def _with_pods(self, traffic: Traffic, node: NodeView, assumed_speed: float, now_s: float) -> Traffic:
        """Return the measured traffic of a direction with the new and ended pods of the node."""
        if traffic.problem:
            return traffic
        measured_at_s = now_s if traffic.measured_at_s is None else traffic.measured_at_s
        most = speed_of(traffic.main, assumed_speed, traffic.main.measured)
        return with_pods(traffic, node.pods, measured_at_s=measured_at_s, window_s=self._window_s, most=most)


def _added_text(fullest: Fullest) -> str:
    return f", of which {bit_text(fullest.added)} for new pods" if fullest.added * BITS_PER_BYTE >= 1.0 else ""


def _speed(link: Link, speeds: Iterable[tuple[re.Pattern[str], float]]) -> float | None:
    return next((speed for devices, speed in speeds if any(map(devices.fullmatch, link.devices))), link.speed)


def _devices_text(links: Iterable[Link]) -> str:
    return ", ".join(device for link in links for device in link.devices)
