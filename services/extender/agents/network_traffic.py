# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The agent ``network_traffic``: nodes with less traffic on their network devices get higher scores.

``normalise: utilisation`` divides the traffic by the speed of the link. ``normalise: relative`` is the formula of the NetworkTraffic plugin
of cylonchau/customScheduler, 100 − value·100/max, with a rate in place of the value of a counter.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low

from ..interface import BEST_SCORE, Agent, Gauge, Judgement, LabelMatch, NodeView, PodView, Query, Rate, Series
from .bandwidth import BITS_PER_BYTE, bit_text
from .measurements import age_violation, newest_by_label, oldest
from .network_arguments import AUTO, RELATIVE, NetworkTrafficArgs
from .network_devices import DeviceFilter, layers_of, link_speed
from .new_pods import unmeasured_share

ASSUMED_BYTES_PER_S = 1e9 / BITS_PER_BYTE
"""The speed of a link if no node of the cluster knows its speed: 1 Gbit/s."""
LEAST_ESTIMATE_BYTES_PER_S = 10e6 / BITS_PER_BYTE
"""The least estimate of a new pod with ``estimate: auto``: 10 Mbit/s."""
MOST_ESTIMATE = 0.05
"""The largest estimate with ``estimate: auto``, as a share of the speed of a link."""
COUNTERS = {"receive": "node_network_receive_bytes_total", "transmit": "node_network_transmit_bytes_total"}
SPEED = "node_network_speed_bytes"


class Traffic(t.NamedTuple):
    """The traffic of a node. ``problem`` says why it is unknown; the other fields do not count then.

    ``rate`` and ``speed``: bytes per second; ``speed`` is None if it is unknown. ``added``: the part of ``rate`` that stands for new pods,
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


@dataclass(frozen=True, slots=True)
class Prepared:
    """The traffic of all nodes of a refresh, the largest measured rate, and the speed that is assumed for nodes without one.

    ``estimates``: the bytes per second of a new pod that declares none, by direction.

    What was added for new pods does not count, so that the annotation of one pod cannot make all other nodes equal.
    """

    traffic: dict[str, tuple[NodeView, Traffic]]
    largest_rate: float
    assumed_speed: float
    assumed_from: str
    estimates: Mapping[str, float]


class NetworkTraffic(Agent):
    """Scores nodes by the traffic of their network devices, and optionally rejects those above ``max_utilisation``."""

    name = "network_traffic"
    args_type = NetworkTrafficArgs
    can_filter = True

    def __init__(self, args: NetworkTrafficArgs) -> None:
        super().__init__(args)
        self._directions, self._window_s = args.directions, args.window_s
        self._entries = [(re.compile(entry.nodes), DeviceFilter(entry.device, args.exclude)) for entry in args.entries]
        self._overrides = [(re.compile(entry.nodes), entry.bytes_per_s) for entry in args.speeds]
        matching = "|".join(f"(?:{entry.device})" for entry in args.entries)
        conditions = [LabelMatch("device", matching)] + ([LabelMatch("device", args.exclude, negative=True)] if args.exclude else [])
        self._rates = {direction: Rate(COUNTERS[direction], self._window_s, tuple(conditions)) for direction in self._directions}
        self._speed = Gauge(SPEED, tuple(conditions))

    @property
    def queries(self) -> Sequence[Query]:
        """Return the rates of the directions, and the speed."""
        return (*self._rates.values(), self._speed)

    def prepare(self, nodes: Sequence[NodeView], now_s: float) -> Prepared:
        """Return the traffic of all nodes, and what the nodes without a speed are compared with."""
        directions = [self._by_direction(node, now_s) for node in nodes]
        estimates = {
            name: self._estimate(one for found in directions for one in found if one.direction == name) for name in self._directions
        }
        traffic = {node.name: (node, _busiest(found, estimates)) for node, found in zip(nodes, directions, strict=True)}
        known = [one for _node, one in traffic.values() if not one.problem]
        speeds = [one.speed for one in known if one.speed is not None]
        largest = max((one.measured for one in known), default=0.0)
        if speeds:
            return Prepared(traffic, largest, median_low(speeds), "the median of the other nodes", estimates)
        return Prepared(traffic, largest, max(ASSUMED_BYTES_PER_S, largest), "no node knows its speed", estimates)

    def judge(self, prepared: Prepared, node: NodeView, pod: PodView | None, now_s: float) -> Judgement:
        """Return the score of a node by its traffic. A node without a known speed is judged by an assumed one."""
        seen, traffic = prepared.traffic.get(node.name, (None, Traffic()))
        if seen is not node:
            traffic = _busiest(self._by_direction(node, now_s), prepared.estimates)
        problem = traffic.problem or age_violation(traffic.measured_at_s, now_s, self.args.max_age_s)
        if problem:
            return Judgement(None, explanation=problem, measured_at_s=traffic.measured_at_s)
        if self.args.normalise == RELATIVE:
            share = traffic.rate / max(prepared.largest_rate, traffic.rate) if traffic.rate > 0 else 0.0
            of = f"{bit_text(traffic.rate)}, {share:.0%} of the largest rate"
        else:
            speed = traffic.speed or max(prepared.assumed_speed, traffic.rate)
            share = min(1.0, traffic.rate / speed)
            of = f"{share:.0%} of {bit_text(speed)}" + ("" if traffic.speed else f" (assumed: {prepared.assumed_from})")
        explanation = f"{of} on {', '.join(traffic.devices)}, {traffic.direction}{_added_text(traffic)}"
        score = BEST_SCORE * (1.0 - share)
        return Judgement(score, traffic.rate, explanation, traffic.measured_at_s, self._rejection(traffic))

    def _rejection(self, traffic: Traffic) -> str:
        """Return the reason to reject a node. An assumed speed rejects none."""
        limit = self.args.max_utilisation
        if limit is None or traffic.speed is None or traffic.rate <= limit * traffic.speed:
            return ""
        return f"network traffic is {traffic.rate / traffic.speed:.0%} of {bit_text(traffic.speed)}, and the maximum is {limit:.0%}"

    def _by_direction(self, node: NodeView, now_s: float) -> list[Traffic]:
        """Return the traffic of each direction, without an estimate of the pods that declare none."""
        devices = next((found for nodes, found in self._entries if nodes.fullmatch(node.name)), None)
        if devices is None:
            return [Traffic(problem="no entry of devices matches this node")]
        return [self._direction(node, devices, direction, now_s) for direction in self._directions]

    def _estimate(self, of_nodes: Iterable[Traffic]) -> float:
        """Return the bytes per second of a new pod that declares none, from the traffic of one direction on all nodes.

        With ``auto`` it is the traffic of a node for each of its pods: the median of the nodes, so that one node with other traffic changes
        little. It is limited, because on nodes with few pods most of the traffic can be that of the nodes themselves.
        """
        if self.args.estimate != AUTO:
            return float(self.args.estimate_bytes_per_s)
        known = [one for one in of_nodes if not one.problem]
        of_pods = [one.measured / one.measured_pods for one in known if one.measured_pods >= 1]
        speeds = [one.speed for one in known if one.speed is not None]
        most = MOST_ESTIMATE * (median_low(speeds) if speeds else ASSUMED_BYTES_PER_S)
        return max(LEAST_ESTIMATE_BYTES_PER_S, min(most, median_low(of_pods))) if of_pods else LEAST_ESTIMATE_BYTES_PER_S

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
        pods = self._pods(node, direction, now_s if measured_at_s is None else measured_at_s, _most(speed, measured), measured)
        added = max(0.0, pods.new - min(pods.ended, measured))
        return Traffic(
            rate=measured + added,
            measured=measured,
            added=added,
            direction=direction,
            devices=counted,
            speed=speed,
            measured_at_s=measured_at_s,
            measured_pods=pods.measured,
            undeclared_pods=pods.undeclared,
        )

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

    def _pods(self, node: NodeView, direction: str, measured_at_s: float, most: float, rate: float) -> _Pods:
        """Return what the pods of a node change. A pod counts with at most ``most``.

        A pod that has ended counts only if it declared its bandwidth, because an estimate of it was never measured. It counts with at most
        the mean part of the measured rate: an idle pod that declared much would hide the new pods of others.
        """
        new = undeclared = measured = 0.0
        ended: list[tuple[float, float]] = []
        for pod in node.pods:
            share, runs = unmeasured_share(pod, measured_at_s, self._window_s), pod.ended_at_s is None
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
        given_back = sum(part * min(declared, rate / measured) for part, declared in ended)
        return _Pods(new, given_back, undeclared, measured)


class _Pods(t.NamedTuple):
    """The pods of a node. ``new``, ``ended``: the declared bytes per second that the rate does not show yet, or still shows.

    ``undeclared``, ``measured``: see ``Traffic``.
    """

    new: float
    ended: float
    undeclared: float
    measured: float


def _busiest(directions: Sequence[Traffic], estimates: Mapping[str, float]) -> Traffic:
    """Return the direction with the most traffic, with an estimate of the pods that declare none."""
    unknown = next((one for one in directions if one.problem), None)
    if unknown is not None:
        return unknown
    rates = [one.rate + _estimated(one, estimates) for one in directions]
    rate = max(rates)
    found = directions[rates.index(rate)]
    measured = max(one.measured for one in directions)
    if len(directions) == 1 and rate == found.rate:
        return found
    measured_at_s = oldest(one.measured_at_s for one in directions)
    return found._replace(rate=rate, measured=measured, added=found.added + rate - found.rate, measured_at_s=measured_at_s)


def _estimated(traffic: Traffic, estimates: Mapping[str, float]) -> float:
    """Return the bytes per second of the new pods that declare none. One pod counts with at most the speed of the link."""
    if not traffic.undeclared_pods:
        return 0.0
    return traffic.undeclared_pods * min(_most(traffic.speed, traffic.measured), estimates[traffic.direction])


def _most(speed: float | None, measured: float) -> float:
    """Return the most bytes per second that one pod can have."""
    return speed if speed is not None else max(ASSUMED_BYTES_PER_S, measured)


def _declared_rate(pod: PodView, direction: str) -> float | None:
    bits = pod.demand.ingress_bits_per_s if direction == "receive" else pod.demand.egress_bits_per_s
    return None if bits is None else bits / BITS_PER_BYTE


def _added_text(traffic: Traffic) -> str:
    return f", of which {bit_text(traffic.added)} for new pods" if traffic.added * BITS_PER_BYTE >= 1.0 else ""
