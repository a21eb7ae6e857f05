# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The plan for a critical pod depends on the cause for which it is pending."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.node import Node
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json, replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.reason import Reason
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.snapshot import Skipped
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import (
    BY_NOMINATION,
    BY_TAINT,
    IMPOSSIBLE,
    PLANNED,
    WAITING,
    RescueContext,
    RescuePlan,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.planner import RescuePlanner
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import hash_of

from tests.unit.support.cluster import snapshot_of
from tests.unit.support.objects import NOW, TOLERATION, Json, named_pod, small_node

KEY = "CriticalAddonsOnly"
PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
"""The condition of a pod that the scheduler has deleted."""
FOREIGN = {"key": KEY, "value": "true", "effect": "NoSchedule"}


def critical(
    cpu: str = "500m", *, nominated: str = "", priority: int = 2_000_000_000, tolerations: t.Any = (TOLERATION,), **spec: t.Any
) -> Pod:
    return named_pod("dns", cpu, priority=priority, nominated=nominated, tolerations=tolerations, **spec)


def judge(
    the_pod: Pod,
    nodes: t.Sequence[Node],
    pods: t.Sequence[Pod] = (),
    *,
    context: RescueContext | None = None,
    skipped: t.Sequence[Skipped] = (),
    in_use: dict[str, str] | None = None,
    **options: t.Any,
) -> RescuePlan:
    snapshot = snapshot_of(nodes=nodes, pods=[*pods, the_pod], skipped=skipped)
    return RescuePlanner(snapshot, RescueOptions(**options), now_s=NOW, in_use=in_use).plan_rescue(the_pod, context or RescueContext())


def test_lack_of_capacity_is_cured() -> None:
    plan = judge(critical(), [small_node("n")], [named_pod("web", "800m", on="n")])
    assert plan.status == PLANNED and plan.hold_method == BY_TAINT and plan.choice is not None
    assert [victim.pod.metadata.name for victim in plan.choice.victims] == ["web"]


@pytest.mark.parametrize(
    ("the_pod", "pods", "context", "status", "code"),
    [
        (critical(), [named_pod("web", "300m", on="n")], RescueContext(), WAITING, "fits"),
        (critical(), [named_pod("web", "800m", on="n", ends_in_s=3)], RescueContext(), WAITING, "capacity_becoming_free"),
        (critical(), [named_pod("web", "800m", on="n", ends_in_s=45)], RescueContext(), WAITING, "capacity_becoming_free"),
        (critical(), [named_pod("web", "800m", on="n", ends_in_s=46)], RescueContext(), IMPOSSIBLE, "no_node"),
        (critical(), [named_pod("web", "800m", on="n", ends_in_s=-60)], RescueContext(), IMPOSSIBLE, "no_node"),
        (critical(), [named_pod("web", "800m", on="n", ends_in_s=3)], RescueContext(awaits_terminating=False), IMPOSSIBLE, "no_node"),
        # A kubelet can write the condition of the scheduler's victims: it counts only on the node for which the scheduler has nominated it.
        (
            critical(),
            [named_pod("web", "800m", on="n", ends_in_s=3, conditions=[PREEMPTED])],
            RescueContext(awaits_terminating=False),
            IMPOSSIBLE,
            "no_node",
        ),
        (
            critical(nominated="n"),
            [named_pod("web", "800m", on="n", ends_in_s=3, conditions=[PREEMPTED])],
            RescueContext(awaits_terminating=False),
            WAITING,
            "preemption_under_way",
        ),
        (
            critical(nominated="n"),
            [named_pod("web", "800m", on="n", ends_in_s=3, conditions=[PREEMPTED])],
            RescueContext(),
            WAITING,
            "preemption_under_way",
        ),
        (critical(nominated="n"), [named_pod("web", "300m", on="n")], RescueContext(), WAITING, "preemption_under_way"),
        (critical(nominated="n"), [named_pod("web", "800m", on="n")], RescueContext(), PLANNED, "evictions_help"),
        (
            critical(),
            [named_pod("web", "800m", on="n")],
            RescueContext(scheduler_down=Reason("scheduler_down", "x")),
            IMPOSSIBLE,
            "scheduler_down",
        ),
        (critical(), [named_pod("web", "800m", on="n")], RescueContext(excluded_nodes=frozenset({"n"})), IMPOSSIBLE, "no_node"),
        (critical(), [named_pod("web", "800m", on="n")], RescueContext(excluded_victims=frozenset({"uid-web"})), IMPOSSIBLE, "no_node"),
        (critical(resourceClaims=[{"name": "gpu"}]), [named_pod("web", "800m", on="n")], RescueContext(), IMPOSSIBLE, "resource_claims"),
        (
            critical(schedulingGroup={"podGroupName": "g"}),
            [named_pod("web", "800m", on="n")],
            RescueContext(),
            IMPOSSIBLE,
            "scheduling_group",
        ),
        (critical(tolerations=()), [named_pod("web", "800m", on="n")], RescueContext(), PLANNED, "evictions_help"),
        (critical("2"), [named_pod("web", "800m", on="n")], RescueContext(), IMPOSSIBLE, "no_node"),
    ],
)
def test_why_it_is_pending_decides(the_pod: Pod, pods: list[Pod], context: RescueContext, status: str, code: str) -> None:
    plan = judge(the_pod, [small_node("n")], pods, context=context)
    assert (plan.status, plan.reason.code) == (status, code), plan.reason


@pytest.mark.parametrize("ends_in_s", [-60, 3600])
def test_node_whose_preempted_pods_do_not_end_is_not_changed_and_named(ends_in_s: float) -> None:
    pods = [named_pod("stuck", "800m", on="n1", ends_in_s=ends_in_s, conditions=[PREEMPTED]), named_pod("web", "800m", on="n2")]
    plan = judge(critical(nominated="n1"), [small_node("n1"), small_node("n2")], pods)
    assert plan.choice is not None and plan.choice.node == "n2"
    assert "the scheduler waits for node n1, where app/stuck " in plan.reason.text


def test_pods_that_the_scheduler_has_not_preempted_do_not_make_a_nomination_hang() -> None:
    """A tenant's pod with a finalizer is on the nominated node: that node is evaluated like every other one."""
    pods = [
        named_pod("tenant", "100m", on="n1", ends_in_s=-60),
        named_pod("web", "800m", on="n1"),
        named_pod("other", "800m", on="n2", priority=5),
    ]
    plan = judge(critical(nominated="n1"), [small_node("n1"), small_node("n2")], pods)
    assert plan.choice is not None and plan.choice.node == "n1"


def test_preemption_that_does_not_make_the_pod_fit_is_not_waited_for() -> None:
    pods = [
        named_pod("victim", "100m", on="n1", ends_in_s=3, conditions=[PREEMPTED]),
        named_pod("web", "800m", on="n1"),
        named_pod("other", "800m", on="n2"),
    ]
    plan = judge(critical(nominated="n1"), [small_node("n1"), small_node("n2")], pods)
    assert plan.status == PLANNED


def test_pods_that_the_program_has_evicted_count_by_its_own_clock() -> None:
    """The API server that wrote the time of deletion may have another clock."""
    pods = [named_pod("web", "800m", on="n", ends_in_s=3600)]
    the_pod = critical()
    snapshot = snapshot_of(nodes=[small_node("n")], pods=[*pods, the_pod])

    def code(evicted: dict[str, float]) -> str:
        return RescuePlanner(snapshot, RescueOptions(), now_s=NOW, evicted=evicted).plan_rescue(the_pod, RescueContext()).reason.code

    assert (code({}), code({"uid-web": 2.0}), code({"uid-web": -16.0})) == ("no_node", "capacity_becoming_free", "no_node")
    assert RescuePlanner(snapshot, RescueOptions(), now_s=NOW, evicted={"uid-web": 2.0}).plan_rescue(
        the_pod, RescueContext(awaits_terminating=False)
    ).reason.code == ("capacity_becoming_free")


def test_many_terminating_pods_of_a_tenant_leave_the_other_nodes_to_the_rescue() -> None:
    nodes = [small_node(f"n{number}") for number in range(5)]
    pods = [named_pod(f"tenant{number}", "800m", on=f"n{number}", ends_in_s=10**6 * number + 60) for number in range(4)]
    plan = judge(critical(), nodes, [*pods, named_pod("web", "800m", on="n4")])
    assert plan.choice is not None and plan.choice.node == "n4"


def test_without_a_toleration_only_pods_with_a_lower_priority_are_evicted() -> None:
    equal = named_pod("web", "800m", on="n", priority=0)
    annotated = named_pod("dns", "500m", tolerations=[])
    annotated = decode_json(
        Pod,
        encode_json(
            {
                "metadata": {**_metadata(annotated), "annotations": {"scheduler.alpha.kubernetes.io/critical-pod": ""}},
                "spec": _spec(annotated),
            }
        ),
    )
    plan = judge(annotated, [small_node("n")], [equal])
    assert plan.status == IMPOSSIBLE and f"{{key: {KEY}, operator: Exists, effect: NoSchedule}}" in plan.reason.text
    assert judge(critical(tolerations=()), [small_node("n")], [equal], hold="taint").reason.code == "no_toleration"
    unheld = judge(annotated, [small_node("n")], [equal], hold="none")
    assert unheld.status == PLANNED and unheld.hold_method == BY_NOMINATION


def test_a_node_that_is_kept_for_such_pods_needs_no_hold() -> None:
    """The pod tolerates the administrator's taint and no hold: the node with that taint is taken, although the other is cheaper."""
    only_true = [{"key": KEY, "operator": "Equal", "value": "true", "effect": "NoSchedule"}]
    pods = [named_pod("cheap", "800m", on="open", priority=-5), named_pod("dear", "800m", on="kept", priority=5)]
    plan = judge(critical(tolerations=only_true), [small_node("open"), small_node("kept", taints=[FOREIGN])], pods, hold="taint")
    assert plan.choice is not None and (plan.choice.node, plan.hold_method) == ("kept", None)


def test_without_a_toleration_the_capacity_must_become_free_in_one_piece() -> None:
    """The replacement of the first of several victims takes its capacity before the last victim has ended."""
    nodes = [small_node("two"), small_node("one")]
    pods = [
        named_pod("a", "450m", on="two", priority=1),
        named_pod("b", "450m", on="two", priority=1),
        named_pod("c", "800m", on="one", priority=5),
    ]
    held = judge(critical("700m"), nodes, pods)
    assert held.choice is not None and (held.choice.node, held.hold_method) == ("two", BY_TAINT)
    unheld = judge(critical("700m", tolerations=()), nodes, pods)
    assert unheld.choice is not None and (unheld.choice.node, unheld.hold_method) == ("one", BY_NOMINATION)
    assert judge(critical("700m", tolerations=()), nodes[:1], pods[:2]).reason.code == "no_toleration"
    anyway = judge(critical("700m", tolerations=()), nodes[:1], pods[:2], hold="none")
    assert (anyway.status, anyway.hold_method) == (PLANNED, BY_NOMINATION)


def test_a_nomination_keeps_nothing_from_pods_of_another_scheduler() -> None:
    victim = named_pod("web", "800m", on="n")
    mine = critical(tolerations=(), schedulerName="mine")
    assert judge(mine, [small_node("n")], [victim]).reason.code == "no_toleration"
    assert judge(mine, [small_node("n")], [victim], hold="none").hold_method == BY_NOMINATION


def test_without_a_toleration_a_victim_of_higher_cost_is_chosen_whose_replacement_respects_the_nomination() -> None:
    pods = [named_pod("cheap", "800m", on="n1", schedulerName="theirs"), named_pod("dear", "800m", on="n2", priority=100)]
    plan = judge(critical(tolerations=()), [small_node("n1"), small_node("n2")], pods)
    assert plan.choice is not None and (plan.choice.node, plan.hold_method) == ("n2", BY_NOMINATION)


def test_without_a_toleration_pods_that_are_ending_have_to_be_gone_first() -> None:
    pods = [named_pod("a", "450m", on="n", ends_in_s=3), named_pod("b", "450m", on="n")]
    plan = judge(critical("700m", tolerations=()), [small_node("n")], pods)
    assert (plan.status, plan.reason.code) == (WAITING, "others_terminating")
    assert judge(critical("700m"), [small_node("n")], pods).status == PLANNED


def test_without_a_toleration_pods_that_end_on_any_node_have_to_be_gone_first() -> None:
    """Each end of a pod makes the scheduler try the critical pod and clear its nomination, which alone keeps the capacity."""
    nodes = [small_node("n"), small_node("far")]
    pods = [named_pod("web", "800m", on="n"), named_pod("full", "900m", on="far", priority=2_000_000_000)]
    ending = named_pod("brief", "100m", on="far", ends_in_s=3)
    unheld = critical(tolerations=())
    plan = judge(unheld, nodes, [*pods, ending])
    assert (plan.status, plan.reason.code) == (WAITING, "others_terminating") and "brief" in plan.reason.text
    assert judge(unheld, nodes, pods).hold_method == BY_NOMINATION
    assert judge(critical(), nodes, [*pods, ending]).hold_method == BY_TAINT, "a taint keeps the node"
    assert judge(unheld, nodes, [*pods, ending], hold="none").hold_method == BY_NOMINATION, "the capacity may be taken"


def test_a_pod_that_ends_much_later_or_should_have_ended_does_not_delay_a_rescue() -> None:
    nodes, unheld = [small_node("n"), small_node("far")], critical(tolerations=())
    for ends_in_s in (10**6, -60):
        pods = [named_pod("web", "800m", on="n"), named_pod("full", "900m", on="far", priority=2_000_000_000)]
        assert judge(unheld, nodes, [*pods, named_pod("stuck", "100m", on="far", ends_in_s=ends_in_s)]).hold_method == BY_NOMINATION


def test_pods_that_end_one_after_the_other_delay_a_rescue_for_a_while_only() -> None:
    pods = [
        named_pod("web", "800m", on="n"),
        named_pod("full", "900m", on="far", priority=2_000_000_000),
        named_pod("brief", "100m", on="far", ends_in_s=3),
    ]
    first, later = (
        judge(critical(tolerations=()), [small_node("n"), small_node("far")], pods, context=RescueContext(awaits_others=it))
        for it in (True, False)
    )
    assert first.reason.code == "others_terminating" and (later.status, later.hold_method) == (PLANNED, BY_NOMINATION)


def test_a_node_that_is_held_for_another_is_not_taken() -> None:
    other = named_pod("other", "500m", priority=2_000_000_000)
    held = small_node("n", taints=[{"key": KEY, "value": f"rescue-{hash_of(other)}-until-9999999999", "effect": "NoSchedule"}])
    plan = judge(critical(), [held], [named_pod("web", "800m", on="n"), other], in_use={"n": other.metadata.uid})
    assert (plan.status, plan.reason.code) == (WAITING, "held_for_another")
    assert (
        judge(critical("1500m"), [held], [named_pod("web", "800m", on="n"), other], in_use={"n": other.metadata.uid}).status == IMPOSSIBLE
    )


def test_what_ends_nowhere_is_not_evicted() -> None:
    plan = judge(critical(), [small_node("n", ready=False)], [named_pod("web", "800m", on="n")])
    assert plan.status == IMPOSSIBLE and "node_not_ready" in {blocker.reason.code for blocker in plan.blockers}


def test_budgets_that_may_not_be_read_are_no_permission() -> None:
    skipped = [Skipped("poddisruptionbudgets", "", "forbidden")]
    plan = judge(critical(), [small_node("n")], [named_pod("web", "800m", on="n")], skipped=skipped)
    assert plan.status == IMPOSSIBLE and "budgets_not_readable" in {blocker.reason.code for blocker in plan.blockers}


def test_plans_of_one_snapshot_do_not_collide() -> None:
    first, second = critical(), named_pod("metrics", "500m", priority=2_000_000_000, tolerations=[TOLERATION])
    pods = [named_pod("a", "800m", on="n1"), named_pod("b", "800m", on="n2")]
    snapshot = snapshot_of(nodes=[small_node("n1"), small_node("n2")], pods=[*pods, first, second])
    planner = RescuePlanner(snapshot, RescueOptions(), now_s=NOW)
    judgements = []
    for one in (first, second):
        judgements.append(planner.plan_rescue(one, RescueContext()))
        planner.reserve(judgements[-1])
    assert {plan.choice.node for plan in judgements if plan.choice} == {"n1", "n2"}


def _metadata(of: Pod) -> Json:
    return {"name": of.metadata.name, "namespace": of.metadata.namespace, "uid": of.metadata.uid}


def _spec(of: Pod) -> Json:
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}], "priority": of.spec.priority}


@pytest.mark.parametrize(("owners", "where"), [(True, "to its template"), (False, "to the pod")])
def test_the_toleration_is_asked_for_where_it_has_to_be_added(owners: bool, where: str) -> None:
    mine = critical(tolerations=())
    if not owners:
        mine = replace(mine, metadata=replace(mine.metadata, owner_references=None))
    said = judge(mine, [small_node("n")], [named_pod("web", "800m", on="n")], hold="taint").reason.text
    assert "a lower spec.priority than the pod (2000000000)" in said and said.endswith(where)


def test_one_node_that_is_being_cleared_for_another_pod_is_named_in_the_singular() -> None:
    said = [
        judge(critical(), [small_node(n) for n in names], in_use=dict.fromkeys(names, "u")).reason.text for names in (["a"], ["a", "b"])
    ]
    assert said[0].startswith("node a is ") and said[1].startswith("nodes a and b are ")
