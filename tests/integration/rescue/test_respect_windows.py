# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rescue ignores maintenance windows, unless its operator sets respect_windows."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tests.integration.modules.test_maintenance_window import INVALID, OPEN, WINDOW, closed
from tests.integration.rescue.rescues import Rescues, victims
from tests.integration.rescue.scene import SYSTEM, Scene
from tests.integration.rescue.test_permissions import ROLES, bound
from tests.integration.workloads import deployment

GUIDE = (Path(__file__).parents[3] / "docs" / "rescue.md").read_text()
(WINDOW_ROLE,) = re.findall(r"^```yaml\n(# in addition with respect_windows.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def annotate(scene: Scene, window: str) -> None:
    scene.cluster.kubectl("annotate", "namespace", scene.namespace, "--overwrite", f"{WINDOW}={window}")


def test_window_of_a_tenant_does_not_prevent_a_rescue(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    annotate(scene, closed())
    scene.occupant("web", node, cpu="800m")
    row = rescues.one(scene.critical("dns"))
    assert row["status"] == "rescued" and victims(row) == {"web"}


def test_with_respect_windows_no_pod_is_evicted_outside_of_its_window(scene: Scene, rescues: Rescues) -> None:
    """The Deployment has its own window, which has precedence over that of the namespace."""
    (node,) = scene.nodes()
    web = deployment(scene.namespace, "web", 1, cpu="800m")
    web["spec"]["template"]["spec"].update(nodeSelector={"kubernetes.io/hostname": node}, terminationGracePeriodSeconds=1)
    scene.cluster.apply(web)
    scene.wait_ready("web", 1)
    pod = scene.critical("dns")
    for window, expected in ((closed(), "outside_window"), (INVALID, "invalid_window")):
        annotate(scene, window)
        row = rescues.one(pod, respect_windows=True)
        assert row["status"] == "impossible" and expected in str(row["blockers"]), row
    assert scene.evictions() == [] and scene.held() == []
    scene.cluster.kubectl("annotate", "deployment", "web", "-n", scene.namespace, f"{WINDOW}={OPEN}")
    row = rescues.one(pod, respect_windows=True)
    assert row["status"] == "rescued" and [one["name"].partition("-")[0] for one in row["victims"]] == ["web"], row


def test_with_respect_windows_another_pod_is_evicted_instead(scene: Scene, rescues: Rescues) -> None:
    """Without the window, the pod with the lowest priority would be the victim."""
    (node,) = scene.nodes()
    scene.occupant("low", node, cpu="400m", priority="scene-low")
    scene.occupant("middle", node, cpu="400m", priority="scene-middle")
    scene.cluster.kubectl("annotate", "replicaset", "low", "-n", scene.namespace, f"{WINDOW}={closed()}")
    row = rescues.one(scene.critical("dns"), respect_windows=True)
    assert row["status"] == "rescued" and victims(row) == {"middle"}


def test_documented_role_is_needed_and_sufficient_for_respect_windows(scene: Scene, rescues: Rescues) -> None:
    (node,) = scene.nodes()
    scene.occupant("web", node, cpu="800m")
    pod = scene.critical("dns")
    kubeconfig = scene.cluster.service_account("windows", namespace=SYSTEM, cluster_role=None)
    roles = list(yaml.safe_load_all(ROLES))
    for role in roles:
        role["metadata"]["name"] = f"windows-{role['metadata']['name']}"
    scene.cluster.apply([*roles, *(bound(role, "windows") for role in roles)])
    options = {"kubeconfig": str(kubeconfig), "name": pod, "respect_windows": True}
    refused = rescues.module(**options)
    assert refused["failed"] and "unknown_window" in str(refused["pods"]), refused
    assert scene.evictions() == []
    role = yaml.safe_load(WINDOW_ROLE)
    scene.cluster.apply([role, bound(role, "windows")])
    done = rescues.module(**options)
    assert done["pods"][0]["status"] == "rescued" and not done.get("warnings"), done
