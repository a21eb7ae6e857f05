# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The traffic of new pods is added to the measured rate, and that of ended ones makes this addition smaller."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import PodView

from tests.unit.services.extender.agents.traffic_nodes import GBIT, bytes_of, measured, traffic_agent
from tests.unit.services.extender.agents.views import NOW_S, judgements, pod, scores


def test_new_pods_correct_the_rate() -> None:
    of = traffic_agent(window=100, estimate="8k")

    def rate(*pods: PodView) -> float:
        return bytes_of(judgements(of, [measured(of, "n", {"eth0": 5000.0}, age_s=10, pods=pods)])["n"])

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
        return bytes_of(judgements(of, [*nodes, empty])["new"])

    assert added(*rates) == 20 * mbit
    assert added(100 * mbit, *rates[1:]) == 44 * mbit
    assert added(8 * mbit, *rates[1:]) == 10 * mbit
    assert added(8000 * mbit, 9000 * mbit) == pytest.approx(450 * mbit)  # 5 % of 9 Gbit/s, which a link has
    assert added(800 * mbit, 900 * mbit) == 50 * mbit  # 5 % of 1 Gbit/s
    assert added() == 10 * mbit


def test_a_new_pod_counts_with_at_most_the_speed_of_the_link() -> None:
    of = traffic_agent()
    huge = pod(ingress=10**15, bound_s_ago=4)
    with_speed = measured(of, "n", {"eth0": 0.0}, speed={"eth0": 10 * GBIT}, pods=(huge,))
    assert bytes_of(judgements(of, [with_speed])["n"]) == 10 * GBIT
    without_speed = measured(of, "n", {"eth0": 0.0}, pods=(huge,))
    assert bytes_of(judgements(of, [without_speed])["n"]) == GBIT
    fast = measured(of, "fast", {"eth0": 0.0}, speed={"eth0": 10 * GBIT})
    assert bytes_of(judgements(of, [without_speed, fast])["n"]) == 10 * GBIT


def rate(*pods: PodView) -> float:
    """Return the rate of a node with these pods on which 600 Mbit/s were measured."""
    of = traffic_agent(window=100, estimate="10M")
    return bytes_of(judgements(of, [measured(of, "n", {"eth0": 600e6 / 8}, speed={"eth0": GBIT}, pods=pods)])["n"])


def test_pods_that_have_ended_do_not_hide_the_measured_rate() -> None:
    ended = (pod("idle", ingress=10**10, bound_s_ago=500, ended_s_ago=3), pod("brief", ingress=8000, bound_s_ago=5, ended_s_ago=2))
    for pods in (*[(one,) for one in ended], ended):
        assert rate(*pods) == 600e6 / 8


def test_a_new_pod_replaces_the_rate_of_an_ended_one() -> None:
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
    found = judgements(of, [measured(of, "n", {"eth0": 500e6 / 8}, speed={"eth0": GBIT}, pods=(*others, idle, new))])["n"]
    assert bytes_of(found) == pytest.approx((500e6 + 200e6 - 50e6) / 8)


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
    after = measured(of, "n", {"eth0": 0.0}, speed={"eth0": GBIT}, pods=(pod(ingress=200_000_000, bound_s_ago=1),))
    judgement = of.judge(prepared, after, None, NOW_S)
    assert judgement.score == pytest.approx(6.0)
    assert judgement.explanation == "20% of 1 Gbit/s on eth0, receive, of which 200 Mbit/s for new pods; the score is 0 at 50%"
