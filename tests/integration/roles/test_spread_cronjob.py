# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The role spread_cronjob against a real API server: installed, repeated, changed, rendered and deleted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.cluster import Cluster
from tests.integration.roles.host_cases import play_role
from tests.integration.roles.installed import installed, remove_all
from tests.integration.roles.role_play import RolePlay

# Each run of a role takes many seconds on a machine with other work.
pytestmark = pytest.mark.timeout(1800)
NAMESPACE = "kube-scheduling"
NAME = "kube-scheduling-rebalancer"
CRON_JOB = f"/apis/batch/v1/namespaces/{NAMESPACE}/cronjobs/{NAME}"
NEVER = "0 0 1 1 *"
OF_BOTH_FORMS = {
    f"namespaces /{NAMESPACE}",
    f"configmaps {NAMESPACE}/kube-root-ca.crt",
    f"serviceaccounts {NAMESPACE}/default",
    f"serviceaccounts {NAMESPACE}/{NAME}",
    f"clusterroles /{NAME}",
    f"clusterrolebindings /{NAME}",
    f"roles kube-system/{NAME}",
    f"rolebindings kube-system/{NAME}",
    f"configmaps {NAMESPACE}/{NAME}",
    f"networkpolicies {NAMESPACE}/{NAME}",
}
AS_CRON_JOB = OF_BOTH_FORMS | {f"cronjobs {NAMESPACE}/{NAME}"}


@pytest.fixture
def role(cluster: Cluster, tmp_path: Path) -> Iterator[RolePlay]:
    """The role with an image that no node has, because the pods are simulated. What a test has installed is deleted after it."""
    variables = {
        "spread_cronjob_kubeconfig": str(cluster.kubeconfig),
        "spread_cronjob_image": "registry.example.org/kube-scheduling/services:1",
        "spread_cronjob_schedule": NEVER,
    }
    yield RolePlay("spread_cronjob", tmp_path, variables)
    remove_all(cluster)


VARIABLES: dict[str, Any] = {
    "spread_cronjob_settings": {"max_workloads": 4, "max_parallel": 2, "wait_timeout": "5m"},
    "spread_cronjob_time_zone": "Europe/Berlin",
    "spread_cronjob_suspend": True,
    "spread_cronjob_labels": {"team": "platform"},
    "spread_cronjob_annotations": {"example.org/owner": "platform"},
    "spread_cronjob_tolerations": [{"key": "infra", "operator": "Exists"}],
    "spread_cronjob_image_pull_secrets": ["registry"],
    "spread_cronjob_priority_class": "system-cluster-critical",
}


@pytest.mark.full
def test_installation_is_planned_made_repeated_changed_and_removed(cluster: Cluster, role: RolePlay) -> None:
    planned = role.run("--check", "--diff")
    assert planned.code == 0 and planned.changed, planned.output
    assert '+    "kind": "ClusterRole"' in planned.output and f"CronJob {NAMESPACE}/{NAME}" in planned.output
    assert installed(cluster) == set()

    first = role.run(**VARIABLES)
    assert first.code == 0 and first.changed, first.output
    assert installed(cluster) == AS_CRON_JOB
    check_cron_job(cluster.get(CRON_JOB))
    again = role.run("--diff", **VARIABLES)
    assert again.code == 0 and again.changed == 0, again.output

    # What is no longer given is removed, and a label that a user has set stays.
    cluster.kubectl("label", "--namespace", NAMESPACE, "cronjob", NAME, "by=user")
    assert role.run(spread_cronjob_network_policy=False).code == 0
    assert installed(cluster) == AS_CRON_JOB - {f"networkpolicies {NAMESPACE}/{NAME}"}
    cron_job = cluster.get(CRON_JOB)
    assert "timeZone" not in cron_job["spec"] and "team" not in cron_job["metadata"]["labels"]
    assert cron_job["metadata"]["labels"]["by"] == "user"

    # A changed form removes the other one.
    changed = role.run(spread_cronjob_form="deployment", spread_cronjob_suspend=True)
    assert changed.code == 0, changed.output
    assert installed(cluster) == OF_BOTH_FORMS | {f"deployments {NAMESPACE}/{NAME}"} | _replica_sets(cluster)
    config = cluster.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}")["data"]["config.yml"]
    assert "interval: 600" in config and "listen_address: :9236" in config
    assert role.run().code == 0 and installed(cluster) == AS_CRON_JOB

    gone = role.run("--check", spread_cronjob_state="absent")
    assert gone.code == 0 and gone.changed, gone.output
    assert installed(cluster) == AS_CRON_JOB
    check_namespace_with_objects_of_others(cluster, role)
    assert role.run(spread_cronjob_state="absent").code == 0
    assert installed(cluster) == set()


def check_cron_job(cron_job: dict[str, Any]) -> None:
    spec, job = cron_job["spec"], cron_job["spec"]["jobTemplate"]
    pod = job["spec"]["template"]["spec"]
    assert (spec["concurrencyPolicy"], spec["timeZone"], spec["suspend"]) == ("Forbid", "Europe/Berlin", True)
    # Two groups of two workloads, five minutes each, and 300 seconds.
    assert (job["spec"]["activeDeadlineSeconds"], job["spec"]["backoffLimit"], pod["restartPolicy"]) == (900, 0, "Never")
    for metadata in (cron_job["metadata"], job["metadata"]):
        assert metadata["labels"]["team"] == "platform" and metadata["annotations"]["example.org/owner"] == "platform"
    assert pod["tolerations"] == [{"key": "infra", "operator": "Exists"}]
    assert (pod["imagePullSecrets"], pod["priorityClassName"]) == ([{"name": "registry"}], "system-cluster-critical")


def _replica_sets(cluster: Cluster) -> set[str]:
    return {name for name in installed(cluster) if name.startswith("replicasets ")}


def check_namespace_with_objects_of_others(cluster: Cluster, role: RolePlay) -> None:
    """The namespace is kept, and the objects are named."""
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    cluster.api.post(path, {"metadata": {"name": "registry"}, "stringData": {"key": "very-secret"}})
    kept = role.run(spread_cronjob_state="absent")
    assert kept.code == 0 and f"Namespace {NAMESPACE} is not deleted" in kept.output and ": Secret/registry" in kept.output
    assert "very-secret" not in kept.output
    assert cluster.get(f"{path}/registry")
    cluster.api.request("DELETE", f"{path}/registry")


@pytest.mark.full
def test_the_rendered_files_are_what_the_role_applies(cluster: Cluster, role: RolePlay, tmp_path: Path) -> None:
    folder = tmp_path / "rendered"
    rendered = role.run(spread_cronjob_render_to=str(folder), spread_cronjob_kubeconfig="")
    assert rendered.code == 0 and installed(cluster) == set(), rendered.output
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    cluster.kubectl("apply", "--server-side", "--field-manager", "kube-scheduling", "-k", str(folder))
    applied = role.run("--diff")
    assert applied.code == 0 and applied.changed == 0, applied.output

    assert role.run(spread_cronjob_render_to=str(folder), spread_cronjob_form="deployment").code == 0
    assert set(before) ^ {file.name for file in folder.iterdir()} == {"rebalancer-cronjob.yaml", "rebalancer-deployment.yaml"}
    assert "rebalancer-deployment.yaml" in (folder / "kustomization.yaml").read_text()


def test_all_wrong_variables_and_settings_are_named_in_one_message(cluster: Cluster, role: RolePlay) -> None:
    wrong = {
        "spread_cronjob_shedule": NEVER,
        "spread_cronjob_wait_timeout": 0,
        "spread_cronjob_image": "",
        "spread_cronjob_settings": {"max_worklods": 3, "strategy": "evict", "interval": 60},
    }
    # A value that the argument spec refuses ends the run before these checks.
    run = play_role(role, {"wrong": wrong, "form": {"spread_cronjob_form": "pod"}})
    for text in (
        "There is no variable spread_cronjob_shedule; the nearest is spread_cronjob_schedule.",
        "spread_cronjob_wait_timeout is 0: ",
        "spread_cronjob_image is empty: ",
        "spread_cronjob_settings: max_worklods is not a setting; the nearest is max_workloads",
        "spread_cronjob_settings: strategy is 'evict': it must be one of ",
        "spread_cronjob_settings has the interval ",
    ):
        assert text in run.failure("wrong"), run.failure("wrong")
    assert "value of spread_cronjob_form must be one of: cronjob, deployment" in run.failure("form"), run.failure("form")
    assert installed(cluster) == set()
