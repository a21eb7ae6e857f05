# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agent ``network_traffic``: nodes with less traffic on their network devices get higher scores.

``normalise: utilisation`` divides the traffic by the speed of the link. The score falls from 10 at 0 to 0 at ``worst_utilisation``, or at
the utilisation of the busiest node if that is higher. An extender answers with eleven integers, and without this scale most of them would
belong to utilisations that do not occur. docs/development/placement.md has the effect.

``normalise: relative`` is the formula of the NetworkTraffic plugin of cylonchau/customScheduler, 100 − value·100/max, with a rate in place
of the value of a counter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from ..interface import BEST_SCORE, Agent, Gauge, Judgement, LabelMatch, NodeView, PodView, Query, Rate, Series
from .measurements import age_violation, newest_by_label, oldest
from .network.arguments import AUTO, RELATIVE, NetworkTrafficArgs
from .network.bandwidth import BITS_PER_BYTE, SPEED_METRIC, bit_text
from .network.devices import DeviceFilter, layers_of, link_speed
from .network.node_traffic import ASSUMED_BYTES_PER_S, Traffic, busiest, most_of_one_pod
from .network.pods import automatic_estimate, pod_traffic

COUNTERS = {"receive": "node_network_receive_bytes_total", "transmit": "node_network_transmit_bytes_total"}


@dataclass(frozen=True, slots=True)
class Prepared:
    """The traffic of all nodes of a refresh. Rates and speeds are in bytes per second.

    ``traffic``: by node, its state at the refresh, its traffic by direction without an estimate, and its traffic.
    ``largest_rate``: the largest measured rate. ``assumed_speed``: the speed of nodes that report none. ``estimates``: the rate of a new
    pod that declares none, by direction. ``worst``: the utilisation with the score 0. New pods count in it, up to the speed of a link.

    What was added for new pods does not count in ``largest_rate``, so that the annotation of one pod cannot make all other nodes equal.
    """

    traffic: dict[str, tuple[NodeView, Sequence[Traffic], Traffic]]
    largest_rate: float
    assumed_speed: float
    assumed_from: str
    estimates: Mapping[str, float]
    worst: float


class NetworkTraffic(Agent):
    """Scores nodes by the traffic of their network devices, and optionally rejects those above ``max_utilisation``."""

    name = "network_traffic"
    args_type = NetworkTrafficArgs
    can_filter = True
    value_unit = "bit/s"

    def __init__(self, args: NetworkTrafficArgs) -> None:
        super().__init__(args)
        self._directions, self._window_s = args.directions, args.window_s
        self._entries = [(re.compile(entry.nodes), DeviceFilter(entry.device, args.exclude)) for entry in args.entries]
        self._overrides = [(re.compile(entry.nodes), entry.bytes_per_s) for entry in args.speeds]
        matching = "|".join(f"(?:{entry.device})" for entry in args.entries)
        conditions = [LabelMatch("device", matching)] + ([LabelMatch("device", args.exclude, negative=True)] if args.exclude else [])
        self._rates = {direction: Rate(COUNTERS[direction], self._window_s, tuple(conditions)) for direction in self._directions}
        self._speed = Gauge(SPEED_METRIC, tuple(conditions))

    @property
    def queries(self) -> Sequence[Query]:
        """Return the rates of the directions, and the speed."""
        return (*self._rates.values(), self._speed)

    @property
    def ineffective_filter(self) -> str:
        """Return the reason why no node is rejected."""
        return "max_utilisation is not set" if self.args.max_utilisation is None else ""

    def prepare(self, nodes: Sequence[NodeView], now_s: float) -> Prepared:
        """Return the traffic of all nodes, and what the nodes without a speed are compared with."""
        directions: list[Sequence[Traffic]] = [self._by_direction(node, now_s) for node in nodes]
        estimates = {direction: self._estimate(directions, direction) for direction in self._directions}
        traffic = {node.name: (node, found, busiest(found, estimates)) for node, found in zip(nodes, directions, strict=True)}
        known = [one for _node, _found, one in traffic.values() if not one.problem]
        speeds = [one.speed for one in known if one.speed is not None]
        largest = max((one.measured for one in known), default=0.0)
        if speeds:
            assumed, assumed_from = median_low(speeds), "the median of the other nodes"
        else:
            assumed, assumed_from = max(ASSUMED_BYTES_PER_S, largest), "no node knows its speed"
        # A link never has more traffic than its speed: such a speed is wrong, and does not set the scale for all nodes.
        plausible = (one for one in known if one.speed is None or one.measured <= one.speed)
        highest = max((one.rate / (one.speed or max(assumed, one.rate)) for one in plausible), default=0.0)
        worst = max(self.args.worst_utilisation, min(1.0, highest))
        return Prepared(traffic, largest, assumed, assumed_from, estimates, worst)

    def judge(self, prepared: Prepared, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        """Return the score of a node by its traffic. A node without a known speed is judged by an assumed one."""
        traffic = self._newest(prepared, node, now_s)
        problem = traffic.problem or age_violation(traffic.measured_at_s, now_s, self.args.max_age_s)
        if problem:
            return Judgement(None, explanation=problem, measured_at_s=traffic.measured_at_s)
        if self.args.normalise == RELATIVE:
            share = worse = traffic.rate / max(prepared.largest_rate, traffic.rate) if traffic.rate > 0 else 0.0
            of, scale = f"{bit_text(traffic.rate)}, {share:.0%} of the largest rate", ""
        else:
            speed = traffic.speed or max(prepared.assumed_speed, traffic.rate)
            share = min(1.0, traffic.rate / speed)
            worse = share / max(prepared.worst, share)
            scale = f"; the score is 0 at {prepared.worst:.0%}"
            of = f"{share:.0%} of {bit_text(speed)}" + ("" if traffic.speed else f" (assumed: {prepared.assumed_from})")
        explanation = f"{of} on {', '.join(traffic.devices)}, {traffic.direction}{_added_text(traffic)}{scale}"
        score = BEST_SCORE * (1.0 - worse)
        return Judgement(score, traffic.rate * BITS_PER_BYTE, explanation, traffic.measured_at_s, self._rejection(traffic))

    def _rejection(self, traffic: Traffic) -> str:
        """Return the reason to reject a node. An assumed speed rejects none.

        Only what was measured counts. Otherwise one tenant could close all nodes for the others with annotations of idle pods.
        """
        limit = self.args.max_utilisation
        if limit is None or traffic.speed is None or traffic.measured <= limit * traffic.speed:
            return ""
        return f"network traffic is {traffic.measured / traffic.speed:.0%} of {bit_text(traffic.speed)}, and max_utilisation is {limit:.0%}"

    def _newest(self, prepared: Prepared, node: NodeView, now_s: float) -> Traffic:
        """Return the traffic of a node with the pods that it has now. Its measured values are those of the refresh, or newer ones."""
        seen, directions, traffic = prepared.traffic.get(node.name, (None, (), Traffic()))
        if seen is node:
            return traffic
        if seen is not None and seen.series is node.series:
            directions = [self._with_pods(one, node, now_s) for one in directions]
        else:
            directions = self._by_direction(node, now_s)
        return busiest(directions, prepared.estimates)

    def _by_direction(self, node: NodeView, now_s: float) -> list[Traffic]:
        """Return the traffic of each direction, without an estimate of the pods that declare none."""
        devices = next((found for nodes, found in self._entries if nodes.fullmatch(node.name)), None)
        if devices is None:
            return [Traffic(problem="no entry of devices matches this node")]
        return [self._direction(node, devices, direction, now_s) for direction in self._directions]

    def _estimate(self, of_nodes: Sequence[Sequence[Traffic]], direction: str) -> float:
        """Return the bytes per second of a new pod that declares none."""
        if self.args.estimate != AUTO:
            return float(self.args.estimate_bytes_per_s)
        return automatic_estimate(one for found in of_nodes for one in found if one.direction == direction)

    def _direction(self, node: NodeView, devices: DeviceFilter, direction: str, now_s: float) -> Traffic:
        series = self._devices_of(node, self._rates[direction], devices)
        if not series:
            return Traffic(problem=f"no value is known ({direction})")
        layers = layers_of(frozenset(series))
        counted = layers[0]
        measured_at_s = oldest(series[device].measured_at_s for device in counted)
        problem = age_violation(measured_at_s, now_s, self.args.max_age_s)
        if problem:
            return Traffic(measured_at_s=measured_at_s, problem=problem)
        measured = max(0.0, sum(series[device].value for device in counted))
        speed = self._speed_of(node, devices, layers, [device for device in counted if series[device].value > 0])
        found = Traffic(measured=measured, direction=direction, devices=counted, speed=speed, measured_at_s=measured_at_s)
        return self._with_pods(found, node, now_s)

    def _with_pods(self, traffic: Traffic, node: NodeView, now_s: float) -> Traffic:
        """Return the measured traffic of a direction with the new and ended pods of the node."""
        if traffic.problem:
            return traffic
        pods = pod_traffic(
            node.pods,
            traffic.direction,
            measured_at_s=now_s if traffic.measured_at_s is None else traffic.measured_at_s,
            window_s=self._window_s,
            most=most_of_one_pod(traffic.speed, traffic.measured),
            rate=traffic.measured,
        )
        added = max(0.0, pods.new - min(pods.ended, traffic.measured))
        return traffic._replace(rate=traffic.measured + added, added=added, measured_pods=pods.measured, undeclared_pods=pods.undeclared)

    def _devices_of(self, node: NodeView, query: Query, devices: DeviceFilter) -> dict[str, Series]:
        found = newest_by_label(node.series.get(query, ()), "device")
        return {device: series for device, series in found.items() if devices.matches(device)}

    def _speed_of(
        self, node: NodeView, devices: DeviceFilter, layers: Sequence[Sequence[str]], with_traffic: Sequence[str]
    ) -> float | None:
        for nodes, speed in self._overrides:
            if nodes.fullmatch(node.name):
                return speed
        speeds = {device: series.value for device, series in self._devices_of(node, self._speed, devices).items()}
        return link_speed(layers, speeds, with_traffic)


def _added_text(traffic: Traffic) -> str:
    return f", of which {bit_text(traffic.added)} for new pods" if traffic.added * BITS_PER_BYTE >= 1.0 else ""
