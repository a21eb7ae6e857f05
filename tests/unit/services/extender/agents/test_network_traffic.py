# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Nodes with less traffic get higher scores, and each byte counts once."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.agents.network.bandwidth import SPEED_METRIC
from ansible_collections.onprem.kube_scheduling.services.extender.agents.network.devices import PROPERTIES
from ansible_collections.onprem.kube_scheduling.services.extender.interface import Agent, Gauge, NodeView, PodView, Rate
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.services.extender.agents.traffic_nodes import GBIT, bytes_of, measured, traffic_agent
from tests.unit.services.extender.agents.views import NOW_S, agent, judgements, node, pod, scores, series


def shares(of: Agent, **by_node: float) -> list[NodeView]:
    """Nodes with a link of 1 Gbit/s, by the share of it that is used."""
    return [measured(of, name, {"eth0": share * GBIT}, speed={"eth0": GBIT}) for name, share in by_node.items()]


def test_score_is_0_at_half_of_the_link_if_no_node_has_more() -> None:
    of = traffic_agent()
    nodes = shares(of, idle=0.0, fifth=0.2, half=0.5)
    assert scores(of, nodes) == {"idle": 10.0, "fifth": pytest.approx(6.0), "half": 0.0}
    found = judgements(of, nodes)["fifth"]
    assert found.explanation == "20% of 1 Gbit/s on eth0, receive; the score is 0 at 50%"
    assert (bytes_of(found), found.measured_at_s) == (0.2 * GBIT, NOW_S - 5)


def test_score_is_0_at_the_utilisation_of_the_busiest_node_above_half() -> None:
    of = traffic_agent()
    assert scores(of, shares(of, idle=0.0, fifth=0.2, most=0.8)) == {"idle": 10.0, "fifth": pytest.approx(7.5), "most": 0.0}
    assert scores(of, shares(of, idle=0.0, fifth=0.2, full=1.0)) == {"idle": 10.0, "fifth": pytest.approx(8.0), "full": 0.0}


def test_a_node_with_more_traffic_than_its_speed_does_not_change_the_scale() -> None:
    """It reports a wrong speed."""
    of = traffic_agent()
    assert scores(of, shares(of, idle=0.0, fifth=0.2, wrong=8.0)) == {"idle": 10.0, "fifth": pytest.approx(6.0), "wrong": 0.0}


def test_new_pods_change_the_scale_up_to_the_speed_of_the_link() -> None:
    of = traffic_agent()
    new = measured(of, "new", {"eth0": 0.0}, speed={"eth0": GBIT}, pods=(pod(ingress=900_000_000, bound_s_ago=1),))
    assert scores(of, [*shares(of, fifth=0.2), new]) == {"fifth": pytest.approx(10.0 * (1 - 0.2 / 0.9)), "new": 0.0}


def test_a_node_without_a_speed_changes_the_scale_by_its_assumed_speed() -> None:
    of = traffic_agent()
    unknown = measured(of, "unknown", {"eth0": 0.8 * GBIT})
    assert scores(of, [*shares(of, fifth=0.2), unknown]) == {"fifth": pytest.approx(7.5), "unknown": 0.0}


def test_with_another_worst_utilisation_the_score_is_the_free_share_of_the_link() -> None:
    of = traffic_agent(worst_utilisation=1)
    assert scores(of, shares(of, idle=0.0, half=0.5, full=1.0)) == {"idle": 10.0, "half": 5.0, "full": 0.0}


@pytest.mark.parametrize("worst", [0, -0.1, 1.1, math.nan])
def test_a_worst_utilisation_outside_of_0_to_1_is_refused(worst: float) -> None:
    with pytest.raises(ValueError, match="worst_utilisation"):
        traffic_agent(worst_utilisation=worst)


def test_a_tenth_of_a_fast_link_is_better_than_half_of_a_slow_one() -> None:
    of = traffic_agent()
    fast = measured(of, "fast", {"eth0": 2.5 * GBIT}, speed={"eth0": 25 * GBIT})
    slow = measured(of, "slow", {"eth0": 0.5 * GBIT}, speed={"eth0": GBIT})
    assert scores(of, [fast, slow]) == {"fast": pytest.approx(8.0), "slow": 0.0}


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


def test_rates_and_speeds_of_different_links_are_never_added() -> None:
    of = traffic_agent()
    full = measured(of, "full", {"eth0": 0.99 * GBIT, "eth1": 0.1 * GBIT}, speed={"eth0": GBIT, "eth1": 10 * GBIT})
    idle = measured(of, "idle", {"eth0": 0.01 * GBIT, "eth1": 2 * GBIT}, speed={"eth0": GBIT, "eth1": 10 * GBIT})
    found = judgements(of, [full, idle])
    assert [one.explanation[: one.explanation.index(", receive")] for one in found.values()] == [
        "99% of 1 Gbit/s on eth0, the fullest of 2 links",
        "20% of 10 Gbit/s on eth1, the fullest of 2 links",
    ]
    assert bytes_of(found["full"]) == 0.99 * GBIT
    assert found["full"].score == 0.0 and found["idle"].score == pytest.approx(10 * (1 - 0.2 / 0.99))


def test_relative_scores_compare_the_links_with_the_most_traffic() -> None:
    of = traffic_agent(normalise="relative")
    nodes = [measured(of, "a", {"eth0": 10.0, "eth1": 40.0}), measured(of, "b", {"eth0": 30.0, "eth1": 30.0})]
    assert scores(of, nodes) == {"a": 0.0, "b": pytest.approx(2.5)}


def test_the_fullest_link_is_that_with_the_largest_shown_utilisation() -> None:
    """A link without a speed is at most full. A link with a speed and new pods can be more than full."""
    of = traffic_agent(estimate="10M")
    one = measured(of, "n", {"eth0": 1.2 * GBIT, "eth1": 1.1 * GBIT}, speed={"eth1": GBIT})
    other = measured(of, "other", {"eth0": 0.0}, speed={"eth0": GBIT})
    assert judgements(of, [one, other])["n"].explanation.startswith("100% of 1 Gbit/s on eth1, the fullest of 2 links")


def test_new_pods_count_on_the_link_with_the_most_traffic() -> None:
    of = traffic_agent(estimate="100M")
    links = {"eth0": 0.1 * GBIT, "eth1": 0.2 * GBIT}
    speeds = {"eth0": GBIT, "eth1": 10 * GBIT}
    one = measured(of, "n", links, speed=speeds, pods=tuple(pod(str(number), bound_s_ago=1) for number in range(10)))
    assert judgements(of, [one])["n"].explanation.startswith("12% of 10 Gbit/s on eth1, the fullest of 2 links, receive, of which 1 Gbit/s")


def test_a_nic_with_a_speed_and_without_a_rate_makes_its_node_unknown() -> None:
    of = agent("network_traffic")
    speed = {"eth0": GBIT, "eth1": GBIT}
    nodes = [
        measured(of, "whole", {"eth0": 0.0, "eth1": 0.0}, speed=speed),
        measured(of, "part", {"eth0": 0.0}, speed=speed),
        measured(of, "bond", {"bond0": 0.5 * GBIT}, speed={**speed, "bond0": 2 * GBIT}),
    ]
    found = judgements(of, nodes)
    assert found["whole"].score == 10.0 and found["bond"].score == pytest.approx(5.0)
    assert found["part"].score is None
    assert found["part"].explanation == "no value of node_network_receive_bytes_total is known for eth1"
    of = agent("network_traffic", exclude="eth1")
    assert judgements(of, [measured(of, "part", {"eth0": 0.0}, speed=speed)])["part"].score == 10.0


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "1 Gbit/s on eth0, receive"),
        ({"exclude": "eth1"}, "1 Gbit/s on eth0, receive"),
        ({"device": "cni.*"}, "1 Gbit/s on cni0, receive"),
        ({"device": "cni.*", "exclude": "cni0"}, "no value of node_network_receive_bytes_total is known"),
    ],
)
def test_devices_inside_a_node_are_read_only_if_device_names_them(given: dict[str, str], text: str) -> None:
    of = agent("network_traffic", **given)
    rates = {"eth0": 0.1 * GBIT, "cni0": 0.2 * GBIT}
    assert text in judgements(of, [measured(of, "n", rates, speed=dict.fromkeys(rates, GBIT))])["n"].explanation


def test_an_old_rate_of_one_link_makes_its_node_unknown() -> None:
    of = traffic_agent(max_age_s=60)
    one = measured(of, "n", {"eth0": 0.0, "eth1": 0.0}, speed={"eth0": GBIT, "eth1": GBIT})
    rates = of.queries[0]
    old = replace(one, series={**one.series, rates: [series(0.0, device="eth0"), series(0.0, device="eth1", age_s=100)]})
    judgement = judgements(of, [old])["n"]
    assert judgement.score is None
    assert judgement.explanation == "the newest value of node_network_receive_bytes_total is 100 s old, and max_age_s is 60 s"


def test_notes_name_several_links_ignored_traffic_and_assumed_speeds() -> None:
    of = agent("network_traffic")
    nodes = [
        *(measured(of, name, {"eth0": 1.0, "eth1": 2.0}, speed={"eth0": GBIT, "eth1": GBIT}) for name in "abcdefg"),
        measured(of, "bridge", {"eth0": 1.0, "br0": 5.0}, speed={"eth0": GBIT}),
        measured(of, "slow", {"eth0": 1.0}),
        measured(of, "bond", {"eth0": 5.0, "bond0": 5.0}, speed={"eth0": GBIT, "bond0": GBIT}),
        node("unknown"),
    ]
    several = "a, b, c, d, e and 2 more"
    assert of.notes(of.prepare(nodes, NOW_S), nodes, NOW_S) == [
        f"{several}: the fullest of eth0, eth1 counts: set device in the args of the agent if pods use only one of them",
        "bridge: br0 has more traffic (receive) than eth0, and does not count: set device in the args of the agent if it is a NIC",
        "slow: the speed of eth0 is assumed: set nodes, device and speed in speeds in the args of the agent",
    ]
    relative = agent("network_traffic", normalise="relative")
    assert relative.notes(relative.prepare([nodes[-3]], NOW_S), [nodes[-3]], NOW_S) == []


def test_two_jobs_that_scrape_one_exporter_count_once() -> None:
    of = traffic_agent()
    rates, speed, *_properties = of.queries
    values = {
        rates: [series(500.0, device="eth0", job="a"), series(400.0, device="eth0", job="b", age_s=20)],
        speed: [series(1000.0, device="eth0")],
    }
    assert bytes_of(judgements(of, [node("n", values)])["n"]) == 500.0


@pytest.mark.parametrize("speed", [{"eth0": -125000.0}, {"eth0": 0.0}, {"eth0": math.nan}, {}])
def test_a_link_without_a_speed_is_judged_by_the_median_of_the_others(speed: dict[str, float]) -> None:
    of = traffic_agent()
    nodes = [measured(of, f"n{gbit}", {"eth0": 0.0}, speed={"eth0": gbit * GBIT}) for gbit in (1, 10, 25)]
    judgement = judgements(of, [*nodes, measured(of, "unknown", {"eth0": GBIT}, speed=speed)])["unknown"]
    assert judgement.score == pytest.approx(8.0)
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
    assert judgement.explanation.startswith("50% of 2 Gbit/s")


def test_a_speed_of_the_configuration_is_that_of_its_device_only() -> None:
    of = agent("network_traffic", speeds=[{"nodes": "n", "device": "eth.", "speed": "1G"}])
    one = measured(of, "n", {"eth0": 0.1 * GBIT, "ens9": 5 * GBIT}, speed={"ens9": 25 * GBIT})
    prepared = of.prepare([one], NOW_S)
    assert of.judge(prepared, one, None, NOW_S).explanation.startswith("20% of 25 Gbit/s on ens9")
    assert not any("assumed" in note for note in of.notes(prepared, [one], NOW_S))


def test_vlans_share_the_speed_of_their_link_and_a_bridge_has_that_of_its_devices() -> None:
    of = agent("network_traffic")
    vlans = measured(of, "vlans", {"eth0.1": 20.0, "eth0.2": 30.0}, speed={"eth0.1": 100.0, "eth0.2": 100.0, "eth0": 100.0})
    bridge = measured(of, "bridge", {"br0": 50.0, "eth0": 50.0}, speed={"br0": -125000.0, "eth0": 100.0})
    starts = [one.explanation.partition(";")[0] for one in judgements(of, [vlans, bridge]).values()]
    assert starts == ["50% of 800 bit/s on eth0.1, eth0.2, receive", "50% of 800 bit/s on eth0, receive"]


def test_both_directions_are_judged_by_the_larger_one() -> None:
    of = traffic_agent(direction="both")
    one = measured(of, "n", {"eth0": 10.0}, transmit={"eth0": 60.0}, speed={"eth0": 100.0})
    judgement = judgements(of, [one])["n"]
    assert judgement.explanation.startswith("60% of 800 bit/s") and "transmit" in judgement.explanation
    assert judgements(of, [measured(of, "n", {"eth0": 10.0})])["n"].score is None


PODS = st.lists(
    st.builds(
        pod,
        ingress=st.none() | st.integers(0, 1000),
        egress=st.none() | st.integers(0, 1000),
        bound_s_ago=st.floats(0, 400),
        ended_s_ago=st.none() | st.floats(0, 400),
    ),
    max_size=4,
)


@given(PODS, PODS, st.sampled_from(["receive", "both"]), st.sampled_from(["auto", 500]), st.sampled_from([5.0, 200.0, None]))
@settings(max_examples=200, deadline=None)
def test_a_node_with_new_pods_is_judged_as_if_its_values_were_read_again(
    before: list[PodView], after: list[PodView], direction: str, estimate: str | int, age_s: float | None
) -> None:
    of = traffic_agent(direction=direction, estimate=estimate)
    rates, speed = {"eth0": 10.0}, {"eth0": 100.0}
    at_refresh = [measured(of, name, rates, transmit={"eth0": 20.0}, speed=speed, age_s=age_s, pods=tuple(before)) for name in ("n", "m")]
    prepared = of.prepare(at_refresh, NOW_S)
    changed = replace(at_refresh[0], pods=tuple(after))
    read_again = replace(changed, series=dict(changed.series))
    assert of.judge(prepared, changed, None, NOW_S) == of.judge(prepared, read_again, None, NOW_S)


def test_the_first_entry_of_devices_that_matches_counts() -> None:
    of = agent("network_traffic", devices=[{"nodes": "db-.*", "device": "ens1"}, {"nodes": "db-.*|web-.*", "device": "eth0"}])
    rates = {"ens1": 10.0, "eth0": 20.0}
    found = judgements(of, [measured(of, name, rates) for name in ("db-1", "web-1", "other")])
    assert [bytes_of(found["db-1"]), bytes_of(found["web-1"]), found["other"].score] == [10.0, 20.0, None]
    assert "no entry of devices" in found["other"].explanation


def test_the_queries_ask_for_the_devices_that_count() -> None:
    of = agent("network_traffic", devices=[{"nodes": "a", "device": "eth0"}, {"nodes": "b", "device": "ens.*"}], exclude="ens9")
    rate, speed, *properties = of.queries
    assert isinstance(rate, Rate) and rate.window_s == 300
    assert [tuple(one) for one in rate.conditions] == [("device", "(?:eth0)|(?:ens.*)", False), ("device", "ens9", True)]
    assert isinstance(speed, Gauge) and [speed.metric, *(one[0] for one in properties)] == [SPEED_METRIC, *PROPERTIES]
    assert {one.conditions for one in (speed, *properties)} == {rate.conditions}


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
    assert found["old"].explanation == "the newest value of node_network_receive_bytes_total is 61 s old, and max_age_s is 60 s"
    assert found["none"].explanation == "no value of node_network_receive_bytes_total is known"


def test_a_value_that_was_fresh_at_the_refresh_becomes_too_old() -> None:
    of = traffic_agent(max_age_s=60)
    one = measured(of, "n", {"eth0": 1.0}, age_s=50)
    prepared = of.prepare([one], NOW_S)
    assert of.judge(prepared, one, None, NOW_S + 9).score is not None
    assert of.judge(prepared, one, None, NOW_S + 11).score is None


def test_the_filter_is_off_by_default_and_rejects_by_known_speeds_only() -> None:
    of = traffic_agent(max_utilisation=0.8)
    nodes = [
        measured(of, "over", {"eth0": 81.0}, speed={"eth0": 100.0}),
        measured(of, "under", {"eth0": 80.0}, speed={"eth0": 100.0}),
        measured(of, "assumed", {"eth0": 1e12}),
        measured(of, "declared", {"eth0": 1.0}, speed={"eth0": 100.0}, pods=(pod(ingress=10**15, bound_s_ago=1),)),
    ]
    assert {name: one.rejection for name, one in judgements(of, nodes).items()} == {
        "over": "network traffic is 81% of 800 bit/s, and max_utilisation is 80%",
        "under": "",
        "assumed": "",
        "declared": "",
    }
    assert not any(one.rejection for one in judgements(traffic_agent(), nodes).values())


ANY = st.floats() | st.sampled_from([0.0, 1.0, 32.0, 1024.0, 65534.0, math.nan, math.inf, -math.inf, 1e308, 5e-324])
BY_DEVICE = st.dictionaries(st.sampled_from(["eth0", "eth1", "eth0.7", "bond0", "br0", "lan", "", "lo"]), ANY)


@given(BY_DEVICE, BY_DEVICE, st.dictionaries(st.sampled_from(PROPERTIES), BY_DEVICE), st.sampled_from(["utilisation", "relative"]))
@settings(max_examples=300, deadline=None)
def test_no_values_of_one_node_make_another_unknown(
    rates: dict[str, float], speeds: dict[str, float], properties: dict[str, dict[str, float]], normalise: str
) -> None:
    of = agent("network_traffic", device=".*", normalise=normalise)
    hostile = measured(of, "hostile", rates, speed=speeds, properties=properties, pods=(pod(bound_s_ago=1),))
    nodes = [*shares(of, idle=0.0, fifth=0.2), hostile]
    found = judgements(of, nodes)
    fifth = found["fifth"].score
    # With normalise: relative, a large rate makes all other nodes equal.
    assert found["idle"].score == 10.0 and fifth is not None and (6.0 <= fifth <= 8.0 or normalise == "relative")
    score = found["hostile"].score
    assert score is None or 0.0 <= score <= 10.0
    assert all("hostile" in note for note in of.notes(of.prepare(nodes, NOW_S), nodes, NOW_S))


@given(rates=st.lists(st.floats(0, 1e12), min_size=2, max_size=6), normalise=st.sampled_from(["utilisation", "relative"]))
@settings(max_examples=50, deadline=None)
def test_more_traffic_never_gives_a_higher_score(rates: list[float], normalise: str) -> None:
    of = traffic_agent(normalise=normalise)
    found = scores(of, [measured(of, str(number), {"eth0": rate}) for number, rate in enumerate(rates)])
    ordered = [found[str(number)] for number in sorted(range(len(rates)), key=lambda number: rates[number])]
    assert all(one is not None and 0.0 <= one <= 10.0 for one in ordered)
    assert ordered == sorted(ordered, key=lambda score: -(score or 0.0))
