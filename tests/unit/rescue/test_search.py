# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The node and the victims that a rescue chooses."""

from __future__ import annotations

from tests.unit.rescue.builders import CRITICAL, pending, running, search
from tests.unit.scheduling.builders import node

SMALL = {"cpu": "1"}


def test_the_vector_of_the_original() -> None:
    # Pods of 150m, 150m, 250m, 150m and 150m fill 850m of 1000m, the first and the last are critical; the pod needs 500m.
    here = [
        running("node-1", "150m", name="p1", priority=CRITICAL),
        running("node-1", "150m", name="p2"),
        running("node-1", "250m", name="p3"),
        running("node-1", "150m", name="p4"),
        running("node-1", "150m", name="p5", priority=CRITICAL),
    ]
    choice = search(pending("500m"), [node("node-1", allocatable=SMALL)], here).best()
    assert choice is not None
    requests = sorted(victim.pod.spec.containers[0].resources.requests["cpu"] for victim in choice.victims)
    assert (choice.node, requests) == ("node-1", ["150m", "250m"])
