# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node that only a nomination keeps: nothing that can be foreseen makes the scheduler clear the nomination while the victim ends.

The scheduler tries a pod after each end of a pod and each change of a taint in the cluster, and clears its nomination if that fails.
"""

from __future__ import annotations

from lab.audit import AuditEvent
from tests.integration.rescue.rescues import Rescues, victims
from tests.integration.rescue.scene import SYSTEM, Scene

AGENT = "onprem.kube_scheduling"


def written(scene: Scene) -> list[AuditEvent]:
    """The writes since the scene began, in order."""
    events = scene.cluster.audit().events(since=scene.mark)
    return [one for one in events if one.code in (200, 201) and "dryRun" not in one.path and one.verb not in ("get", "list", "watch")]


def position(events: list[AuditEvent], verb: str, subresource: str, name: str) -> int:
    """Return the index of the first such write to a pod whose name has this prefix."""
    return next(
        number
        for number, event in enumerate(events)
        if event.resource == "pods" and (event.verb, event.subresource) == (verb, subresource) and event.name.startswith(name)
    )


def is_end(event: AuditEvent, name: str) -> bool:
    """The kubelet has removed the pod."""
    return event.user_agent.startswith("kwok") and (event.verb, event.name) == ("delete", name)


def test_no_other_rescue_is_under_way_while_a_nomination_alone_keeps_the_capacity(scene: Scene, rescues: Rescues) -> None:
    first, second = scene.nodes(2)
    scene.occupant("web", first, cpu="800m", grace=2)
    scene.occupant("app", second, cpu="800m", grace=2)
    plain = scene.critical("plain", node=first, priority="system-node-critical", tolerates=False)
    other = scene.critical("other", node=second)
    rows = {row["name"]: row for row in rescues.run(label_selector=f"scene={scene.id}")["pods"]}
    assert {name: (row["status"], victims(row)) for name, row in rows.items()} == {plain: ("rescued", {"web"}), other: ("rescued", {"app"})}
    events = written(scene)
    meanwhile = events[position(events, "create", "eviction", "web") + 1 : position(events, "create", "binding", plain)]
    ours = [event for event in meanwhile if event.user_agent.startswith(AGENT) and event.resource in ("nodes", "pods")]
    assert [(event.verb, event.path) for event in ours if event.name != plain] == []
    assert len(scene.evictions()) == 2 and scene.held() == []


def test_a_pod_that_ends_on_another_node_is_awaited_where_a_nomination_alone_keeps_the_capacity(scene: Scene, rescues: Rescues) -> None:
    first, second = scene.nodes(2)
    scene.occupant("web", first, cpu="800m")
    scene.bare("brief", second, cpu="10m", grace=10)
    plain = scene.critical("plain", node=first, tolerates=False)
    scene.api.request("DELETE", f"/api/v1/namespaces/{scene.namespace}/pods/brief", {"gracePeriodSeconds": 10})
    plan = rescues.one(plain, check_mode=True)
    assert plan["status"] == "waiting" and "brief" in plan["message"], "the pod that ends is awaited"
    row = rescues.one(plain)
    assert (row["status"], victims(row)) == ("rescued", {"web"})
    events = written(scene)
    ended = next(number for number, event in enumerate(events) if is_end(event, "brief"))
    assert ended < position(events, "create", "eviction", "web")


def test_a_pod_that_tolerates_the_taint_does_not_wait_for_pods_that_end_on_other_nodes(scene: Scene, rescues: Rescues) -> None:
    first, second = scene.nodes(2)
    scene.occupant("web", first, cpu="800m")
    scene.bare("brief", second, cpu="10m", grace=30)
    pod = scene.critical("dns", node=first)
    scene.api.request("DELETE", f"/api/v1/namespaces/{scene.namespace}/pods/brief", {"gracePeriodSeconds": 20})
    row = rescues.one(pod)
    assert (row["status"], victims(row)) == ("rescued", {"web"})
    events = written(scene)
    ended = [number for number, event in enumerate(events) if is_end(event, "brief")]
    assert ended == [] or position(events, "create", "eviction", "web") < ended[0]
    assert scene.bound_to(pod, SYSTEM) == first
