# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nodes with less traffic get higher scores, and each byte counts once."""

from __future__ import annotations

import math
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.network_devices import VIRTUAL_DEVICES, DeviceFilter, layers_of
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Agent, Gauge, NodeView, PodView, Rate, Series
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.agents.views import NOW_S, agent, judgements, node, pod, scores, series

GBIT = 125e6
"""Bytes per second of 1 Gbit/s."""


def traffic_agent(**args: t.Any) -> Agent:
    return agent("network_traffic", **{"device": "eth.*|bond.*|br.*", **args})


def measured(
    of: Agent,
    name: str,
    receive: dict[str, float],
    *,
    transmit: dict[str, float] | None = None,
    speed: dict[str, float] | None = None,
    age_s: float | None = 5.0,
    pods: tuple[PodView, ...] = (),
) -> NodeView:
    """A node with rates in bytes per second by device."""
    values: dict[t.Any, list[Series]] = {}
    for query in of.queries:
        by_device = receive
        if isinstance(query, Gauge):
            by_device = speed or {}
        elif isinstance(query, Rate) and "transmit" in query.metric:
            by_device = transmit or {}
        values[query] = [series(value, age_s=age_s, device=device) for device, value in by_device.items()]
    return node(name, values, pods=pods)


def test_score_is_the_free_share_of_the_link() -> None:
    of = traffic_agent()
    nodes = [
        measured(of, "idle", {"eth0": 0.0}, speed={"eth0": GBIT}),
        measured(of, "half", {"eth0": GBIT / 2}, speed={"eth0": GBIT}),
        measured(of, "full", {"eth0": 2 * GBIT}, speed={"eth0": GBIT}),
    ]
    assert scores(of, nodes) == {"idle": 10.0, "half": 5.0, "full": 0.0}
    assert judgements(of, nodes)["half"].explanation == "50% of 1 Gbit/s on eth0, receive"
    assert judgements(of, nodes)["half"].measured_at_s == NOW_S - 5


def test_a_quarter_of_a_fast_link_is_better_than_half_of_a_slow_one() -> None:
    of = traffic_agent()
    fast = measured(of, "fast", {"eth0": 2.5 * GBIT}, speed={"eth0": 25 * GBIT})
    slow = measured(of, "slow", {"eth0": 0.5 * GBIT}, speed={"eth0": GBIT})
    assert scores(of, [fast, slow]) == {"fast": pytest.approx(9.0), "slow": pytest.approx(5.0)}


def test_relative_scores_are_those_of_the_article() -> None:
    of = traffic_agent(normalise="relative")
    found = scores(of, [measured(of, "a", {"eth0": 140_000.0}), measured(of, "b", {"eth0": 200_000.0})])
    assert found == {"a": pytest.approx(3.0), "b": 0.0}
    # The log of the article: 12541068340 has 71 of 100 points, and the largest value has 0.
    found = scores(of, [measured(of, "node01", {"eth0": 12_541_068_340.0}), measured(of, "master", {"eth0": 42_500_000_000.0})])
    assert math.ceil(10 * (found["node01"] or 0)) == 71 and found["master"] == 0.0


def test_relative_scores_of_idle_nodes_are_all_best() -> None:
    of = traffic_agent(normalise="relative")
    assert scores(of, [measured(of, "a", {"eth0": 0.0}), measured(of, "b", {"eth0": 0.0})]) == {"a": 10.0, "b": 10.0}


@pytest.mark.parametrize(
    ("receive", "counted"),
    [
        ({"eth0": 10.0, "eth1": 20.0, "bond0": 30.0}, ("bond0",)),
        ({"eth0": 30.0, "eth0.100": 10.0, "eth0.200": 20.0}, ("eth0.100", "eth0.200")),
        ({"eth0": 30.0, "br0": 30.0}, ("br0",)),
        ({"eth0": 15.0, "eth1": 15.0, "bond0": 30.0, "bond0.7": 30.0, "br0": 30.0}, ("br0",)),
        ({"eth0": 10.0, "eth1": 20.0}, ("eth0", "eth1")),
        ({"eth0": 30.0, "lo": 99.0, "veth12ab": 99.0, "cni0": 99.0, "docker0": 99.0, "br-0123456789ab": 99.0}, ("eth0",)),
    ],
)
def test_a_byte_is_counted_on_one_layer_of_devices(receive: dict[str, float], counted: tuple[str, ...]) -> None:
    of = agent("network_traffic")
    judgement = judgements(of, [measured(of, "n", receive, speed={"eth0": 1000.0})])["n"]
    assert judgement.value == 30.0
    assert f"on {', '.join(counted)}, receive" in judgement.explanation


def test_two_jobs_that_scrape_one_exporter_count_once() -> None:
    of = traffic_agent()
    rates, speed = of.queries
    values = {
        rates: [series(500.0, device="eth0", job="a"), series(400.0, device="eth0", job="b", age_s=20)],
        speed: [series(1000.0, device="eth0")],
    }
    assert judgements(of, [node("n", values)])["n"].value == 500.0


@pytest.mark.parametrize("speed", [{"eth0": -125000.0}, {"eth0": 0.0}, {"eth0": math.nan}, {}])
def test_a_link_without_a_speed_is_judged_by_the_median_of_the_others(speed: dict[str, float]) -> None:
    of = traffic_agent()
    nodes = [measured(of, f"n{gbit}", {"eth0": 0.0}, speed={"eth0": gbit * GBIT}) for gbit in (1, 10, 25)]
    judgement = judgements(of, [*nodes, measured(of, "unknown", {"eth0": GBIT}, speed=speed)])["unknown"]
    assert judgement.score == pytest.approx(9.0)
    assert "10% of 10 Gbit/s (assumed: the median of the other nodes)" in judgement.explanation


def test_without_any_speed_small_differences_have_small_effects() -> None:
    of = traffic_agent()
    found = scores(of, [measured(of, "a", {"eth0": 1.0}), measured(of, "b", {"eth0": 2.0})])
    assert found == {"a": pytest.approx(10.0, abs=1e-6), "b": pytest.approx(10.0, abs=1e-6)}
    found = scores(of, [measured(of, "a", {"eth0": 2 * GBIT}), measured(of, "b", {"eth0": 4 * GBIT})])
    assert found == {"a": pytest.approx(5.0), "b": 0.0}


def test_a_speed_of_the_configuration_replaces_the_reported_one() -> None:
    of = traffic_agent(speeds=[{"nodes": "vm-.*", "speed": "2G"}, {"nodes": ".*", "speed": "9G"}])
    judgement = judgements(of, [measured(of, "vm-1", {"eth0": GBIT}, speed={"eth0": 10 * GBIT})])["vm-1"]
    assert judgement.score == pytest.approx(5.0)


def test_vlans_share_the_speed_of_their_link_and_a_bridge_has_that_of_its_devices() -> None:
    of = agent("network_traffic")
    vlans = measured(of, "vlans", {"eth0.1": 20.0, "eth0.2": 30.0}, speed={"eth0.1": 100.0, "eth0.2": 100.0, "eth0": 100.0})
    bridge = measured(of, "bridge", {"br0": 50.0, "eth0": 50.0}, speed={"br0": -125000.0, "eth0": 100.0})
    assert scores(of, [vlans, bridge]) == {"vlans": 5.0, "bridge": 5.0}


def test_both_directions_are_judged_by_the_larger_one() -> None:
    of = traffic_agent(direction="both")
    one = measured(of, "n", {"eth0": 10.0}, transmit={"eth0": 60.0}, speed={"eth0": 100.0})
    judgement = judgements(of, [one])["n"]
    assert judgement.score == pytest.approx(4.0) and "transmit" in judgement.explanation
    assert judgements(of, [measured(of, "n", {"eth0": 10.0})])["n"].score is None


def test_the_first_entry_of_devices_that_matches_counts() -> None:
    of = agent("network_traffic", devices=[{"nodes": "db-.*", "device": "ens1"}, {"nodes": "db-.*|web-.*", "device": "eth0"}])
    rates = {"ens1": 10.0, "eth0": 20.0}
    found = judgements(of, [measured(of, name, rates) for name in ("db-1", "web-1", "other")])
    assert [found["db-1"].value, found["web-1"].value, found["other"].score] == [10.0, 20.0, None]
    assert found["other"].explanation == "no entry of devices matches this node"


def test_the_queries_ask_for_the_devices_that_count() -> None:
    of = agent("network_traffic", devices=[{"nodes": "a", "device": "eth0"}, {"nodes": "b", "device": "ens.*"}], exclude="ens9")
    (rate, speed) = of.queries
    assert isinstance(rate, Rate) and rate.window_s == 300
    assert [tuple(one) for one in rate.conditions] == [("device", "(?:eth0)|(?:ens.*)", False), ("device", "ens9", True)]
    assert isinstance(speed, Gauge) and speed.conditions == rate.conditions


def test_old_and_missing_values_are_unknown() -> None:
    of = traffic_agent(max_age_s=60)
    found = judgements(
        of,
        [
            measured(of, "old", {"eth0": 1.0}, age_s=61),
            measured(of, "fresh", {"eth0": 1.0}, age_s=59),
            measured(of, "unknown-age", {"eth0": 1.0}, age_s=None),
            measured(of, "nan", {"eth0": math.nan}),
            node("none"),
        ],
    )
    assert {name for name, one in found.items() if one.score is None} == {"old", "nan", "none"}
    assert found["old"].explanation == "the newest value is 61 s old, and the maximum is 60 s"


def test_a_value_that_was_fresh_at_the_refresh_becomes_too_old() -> None:
    of = traffic_agent(max_age_s=60)
    one = measured(of, "n", {"eth0": 1.0}, age_s=50)
    prepared = of.prepare([one], NOW_S)
    assert of.judge(prepared, one, None, NOW_S + 9).score is not None
    assert of.judge(prepared, one, None, NOW_S + 11).score is None


def test_new_pods_correct_the_rate() -> None:
    of = traffic_agent(window=100, estimate="8k")

    def rate(*pods: PodView) -> float | None:
        return judgements(of, [measured(of, "n", {"eth0": 5000.0}, age_s=10, pods=pods)])["n"].value

    assert rate(pod(ingress=8000, bound_s_ago=4)) == 6000.0  # bits are bytes here
    assert rate(pod(bound_s_ago=4)) == 6000.0  # the estimate
    assert rate(pod(ingress=8000, bound_s_ago=60)) == 5500.0  # half of the window shows the pod
    assert rate(pod(ingress=8000, bound_s_ago=500)) == 5000.0
    assert rate(pod(egress=800_000, ingress=0, bound_s_ago=4)) == 5000.0


def test_the_estimate_of_a_new_pod_is_the_traffic_of_a_node_for_each_of_its_pods() -> None:
    of = traffic_agent(window=100)
    mbit = 1e6 / 8
    old = [(pod("a", bound_s_ago=500), pod("b", bound_s_ago=500)), (pod("c", bound_s_ago=500), pod("half", bound_s_ago=60)), ()]
    rates = (40 * mbit, 66 * mbit, 9000 * mbit)  # 20 and 44 Mbit/s for each pod, and traffic without pods

    def added(*rates: float) -> float:
        nodes = [measured(of, f"n{number}", {"eth0": rate}, age_s=10, pods=old[number]) for number, rate in enumerate(rates)]
        empty = measured(of, "new", {"eth0": 0.0}, age_s=10, pods=(pod("new", bound_s_ago=4),))
        return judgements(of, [*nodes, empty])["new"].value or 0.0

    assert added(*rates) == 20 * mbit
    assert added(100 * mbit, *rates[1:]) == 44 * mbit
    assert added(8 * mbit, *rates[1:]) == 10 * mbit
    assert added(8000 * mbit, 9000 * mbit) == 50 * mbit  # 5 % of 1 Gbit/s
    assert added() == 10 * mbit


def test_a_new_pod_counts_with_at_most_the_speed_of_the_link() -> None:
    of = traffic_agent()
    huge = pod(ingress=10**15, bound_s_ago=4)
    with_speed = measured(of, "n", {"eth0": 0.0}, speed={"eth0": 10 * GBIT}, pods=(huge,))
    assert judgements(of, [with_speed])["n"].value == 10 * GBIT
    without_speed = measured(of, "n", {"eth0": 0.0}, pods=(huge,))
    assert judgements(of, [without_speed])["n"].value == GBIT


def test_pods_that_have_ended_do_not_hide_the_measured_rate() -> None:
    of = traffic_agent(window=100, estimate="10M")

    def rate(*pods: PodView) -> float | None:
        return judgements(of, [measured(of, "n", {"eth0": 600e6 / 8}, speed={"eth0": GBIT}, pods=pods)])["n"].value

    ended = (pod("idle", ingress=10**10, bound_s_ago=500, ended_s_ago=3), pod("brief", ingress=8000, bound_s_ago=5, ended_s_ago=2))
    for pods in (*[(one,) for one in ended], ended):
        assert rate(*pods) == 600e6 / 8


def test_a_new_pod_replaces_the_rate_of_an_ended_one() -> None:
    of = traffic_agent(window=100, estimate="10M")

    def rate(*pods: PodView) -> float | None:
        return judgements(of, [measured(of, "n", {"eth0": 600e6 / 8}, speed={"eth0": GBIT}, pods=pods)])["n"].value

    old, new = pod("old", ingress=80_000_000, bound_s_ago=500, ended_s_ago=4), pod("new", ingress=80_000_000, bound_s_ago=4)
    assert rate(old, new) == 600e6 / 8, "the new pod replaces the old one"
    assert rate(pod("half", ingress=80_000_000, bound_s_ago=500, ended_s_ago=54), new) == pytest.approx(600e6 / 8 + 4.9e6)
    # An estimate was never measured.
    jobs = tuple(pod(f"job-{number}", bound_s_ago=500, ended_s_ago=20) for number in range(60))
    assert rate(*jobs, new) == 600e6 / 8 + 10e6


def test_an_ended_idle_pod_that_declared_much_hides_only_a_mean_part_of_new_pods() -> None:
    of = traffic_agent(window=100)
    others = tuple(pod(f"other-{number}", bound_s_ago=500) for number in range(9))
    idle, new = pod("idle", ingress=10**15, bound_s_ago=500, ended_s_ago=4), pod("new", ingress=200_000_000, bound_s_ago=4)
    found = judgements(of, [measured(of, "n", {"eth0": 500e6 / 8}, speed={"eth0": GBIT}, pods=(*others, idle, new))])["n"].value
    assert found == pytest.approx((500e6 + 200e6 - 50e6) / 8)


@pytest.mark.parametrize("args", [{"normalise": "relative"}, {}])
def test_the_annotation_of_one_pod_does_not_make_the_other_nodes_equal(args: dict[str, t.Any]) -> None:
    of = traffic_agent(**args)
    busy, idle = measured(of, "busy", {"eth0": 9 * GBIT}), measured(of, "idle", {"eth0": 0.01 * GBIT})
    other = measured(of, "other", {"eth0": 0.01 * GBIT}, pods=(pod(ingress=10**15, bound_s_ago=4),))
    before, after = scores(of, [busy, idle]), scores(of, [busy, idle, other])
    assert {name: after[name] for name in before} == before


def test_a_bound_pod_changes_the_judgement_without_a_refresh() -> None:
    of = traffic_agent()
    before = measured(of, "n", {"eth0": 0.0}, speed={"eth0": GBIT})
    prepared = of.prepare([before], NOW_S)
    after = measured(of, "n", {"eth0": 0.0}, speed={"eth0": GBIT}, pods=(pod(ingress=500_000_000, bound_s_ago=1),))
    judgement = of.judge(prepared, after, None, NOW_S)
    assert judgement.score == pytest.approx(5.0)
    assert judgement.explanation == "50% of 1 Gbit/s on eth0, receive, of which 500 Mbit/s for new pods"


def test_the_filter_is_off_by_default_and_rejects_by_known_speeds_only() -> None:
    of = traffic_agent(max_utilisation=0.8)
    nodes = [
        measured(of, "over", {"eth0": 81.0}, speed={"eth0": 100.0}),
        measured(of, "under", {"eth0": 80.0}, speed={"eth0": 100.0}),
        measured(of, "assumed", {"eth0": 1e12}),
    ]
    assert {name: one.rejection for name, one in judgements(of, nodes).items()} == {
        "over": "network traffic is 81% of 800 bit/s, and the maximum is 80%",
        "under": "",
        "assumed": "",
    }
    assert not any(one.rejection for one in judgements(traffic_agent(), nodes).values())


@given(rates=st.lists(st.floats(0, 1e12), min_size=2, max_size=6), normalise=st.sampled_from(["utilisation", "relative"]))
@settings(max_examples=50, deadline=None)
def test_more_traffic_never_gives_a_higher_score(rates: list[float], normalise: str) -> None:
    of = traffic_agent(normalise=normalise)
    found = scores(of, [measured(of, str(number), {"eth0": rate}) for number, rate in enumerate(rates)])
    ordered = [found[str(number)] for number in sorted(range(len(rates)), key=lambda number: rates[number])]
    assert all(one is not None and 0.0 <= one <= 10.0 for one in ordered)
    assert ordered == sorted(ordered, key=lambda score: -(score or 0.0))


@pytest.mark.parametrize(
    "device", ["lo", "veth1a", "cni0", "calico", "cilium_host", "docker0", "br-0123456789ab", "flannel.1", "kube-ipvs0"]
)
def test_devices_inside_a_node_are_excluded(device: str) -> None:
    assert not DeviceFilter(".*", VIRTUAL_DEVICES).matches(device)


@pytest.mark.parametrize("device", ["eth0", "eno1", "enp3s0f0", "bond0", "bond0.100", "br0", "br-lan", "vmbr0", "vlan100", "team0", "ib0"])
def test_devices_of_the_network_are_not_excluded(device: str) -> None:
    assert DeviceFilter(".*", VIRTUAL_DEVICES).matches(device)


@given(st.frozensets(st.sampled_from(["eth0", "eth1", "eth0.5", "bond0", "bond0.1", "br0", "vmbr1", "team1", "vlan7"]), min_size=1))
@settings(max_examples=50, deadline=None)
def test_each_device_is_in_one_layer(devices: frozenset[str]) -> None:
    layers = layers_of(devices)
    assert sorted(device for layer in layers for device in layer) == sorted(devices)
    assert all(layers)
