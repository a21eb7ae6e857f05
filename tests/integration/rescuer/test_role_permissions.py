# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rights that the role critical_rescuer grants are enough for the rescuer, and it uses all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.audit import COMPLETE, STARTED, AuditEvent
from lab.cluster import Cluster
from tests.integration.rescue.scene import ATTEMPTS, LEASE, SYSTEM, Scene
from tests.integration.rescue.test_permissions import Grant, granted, one_of_a_silent_scheduler, one_without_the_toleration
from tests.integration.rescuer.conftest import Start
from tests.integration.rescuer.test_rescuer import full_node, wait_bound, wait_free
from tests.integration.roles.installed import remove_all
from tests.integration.roles.role_play import RolePlay
from tests.integration.workloads import wait_until
from tools.paths import ROOT

NAMESPACE, NAME = "kube-scheduling", "kube-scheduling-rescuer"
DECLARED = yaml.safe_load((ROOT / "roles" / "critical_rescuer" / "vars" / "main" / "permissions.yml").read_text())
# Each run of a role takes many seconds on a machine with other work.
pytestmark = pytest.mark.timeout(1800)
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def granted_to_account(cluster: Cluster) -> set[Grant]:
    """Return what the bound roles allow the service account."""
    roles = [cluster.get(f"{RBAC}/clusterroles/{NAME}")]
    roles += [role for role in cluster.get(f"{RBAC}/roles")["items"] if role["metadata"]["name"] == NAME]
    return granted(roles)


def rare() -> set[tuple[str, str, str]]:
    """Return group, resource and verb of the rights that only some runs use."""
    entries: list[dict[str, Any]] = [entry for entries in DECLARED.values() for entry in entries if "rare" in entry]
    return {(entry["api_group"], resource, verb) for entry in entries for resource in entry["resources"] for verb in entry["verbs"]}


def unused(grants: set[Grant], events: list[AuditEvent]) -> set[tuple[str, str, str]]:
    return {grant[:3] for grant in grants if not any(grant.covers(event) for event in events)}


def test_granted_rights_are_enough_and_all_are_used(scene: Scene, cluster: Cluster, daemons: Start, tmp_path: Path) -> None:
    variables = {"critical_rescuer_kubeconfig": str(cluster.kubeconfig), "critical_rescuer_image": "registry.example.org/services:1"}
    role = RolePlay("critical_rescuer", tmp_path, {**variables, "critical_rescuer_wait_timeout": 0})
    installed = role.run()
    assert installed.code == 0, installed.output
    kubeconfig = cluster.service_account(NAME, namespace=NAMESPACE, cluster_role=None)
    for path in (ATTEMPTS, LEASE):  # so that they are created
        if cluster.api.find(path) is not None:
            cluster.api.request("DELETE", path)
    mark = cluster.audit().mark()
    user = f"system:serviceaccount:{NAMESPACE}:{NAME}"

    def requests() -> list[AuditEvent]:
        found = cluster.audit().events(since=mark, user=user, stages=(STARTED, COMPLETE))
        return [event for event in found if event.resource]

    daemon = daemons(kubeconfig=kubeconfig)
    wait_until(lambda: daemon.leads, what="a leader")
    node = full_node(scene)
    wait_bound(scene, scene.critical("dns"), node, daemon)
    wait_free(scene)
    nominated = one_without_the_toleration(scene)
    wait_until(lambda: scene.bound_to(nominated) != "", what=lambda: f"a nominated pod; {daemon.log.read_text()}")
    wait_until(lambda: daemon.metric("rescues_total", result="rescued") == 2, what="both rescues")

    # The Lease is released at the end.
    assert daemon.stop() == 0
    assert [line for line in daemon.lines if line["level"] != "info"] == []
    everything = granted_to_account(cluster)
    assert [event for event in requests() if event.code in (401, 403)] == []
    assert [event for event in requests() if not any(grant.covers(event) for grant in everything)] == []
    assert unused(everything, requests()) <= rare()

    daemons(kubeconfig=kubeconfig)
    one_of_a_silent_scheduler(scene)
    wait_until(lambda: unused(everything, requests()) == set(), what=f"the rare rights {unused(everything, requests())}")
    remove_all(cluster)


def test_rights_are_those_of_the_documented_roles() -> None:
    """docs/rescue.md has roles for people who apply them by hand. The role grants the same."""
    text = (ROOT / "docs" / "rescue.md").read_text()
    documented = text.partition("# for k8s_critical_rescue, also in check mode")[2].partition("```")[0]
    windows = text.partition("# in addition with respect_windows")[2].partition("```")[0]
    in_namespaces = [{**entry, "namespace": SYSTEM} for entry in DECLARED["__critical_rescuer_permissions_in_namespaces"]]
    entries = [*DECLARED["__critical_rescuer_permissions"], *in_namespaces, *DECLARED["__critical_rescuer_permissions_with_windows"]]
    declared = granted([role_of(entry) for entry in entries])
    assert declared == granted([role for part in (documented, windows) for role in yaml.safe_load_all("#" + part)])


def role_of(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a Role, or a ClusterRole, with one right of the data file."""
    rule = {"apiGroups": [entry["api_group"]], "resources": entry["resources"], "verbs": entry["verbs"]}
    names = {"resourceNames": entry["names"]} if "names" in entry else {}
    return {"metadata": {"namespace": entry["namespace"]} if "namespace" in entry else {}, "rules": [{**rule, **names}]}
