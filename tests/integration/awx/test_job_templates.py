# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each job template runs on a real control plane, from the defaults of its survey and with answers."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import yaml

from lab.audit import COMPLETE, STARTED
from lab.cluster import Cluster
from lab.pytest_fixtures import NamespaceFactory
from tests.integration.awx.controller import BEARER_TYPE, Controller, controller
from tests.integration.awx.launch import Launcher, Packages
from tests.integration.awx.setup_run import set_up
from tests.integration.modules.test_documented_permissions import LOOK, USER
from tests.integration.workloads import deployment, pile_up, pods_of

PRELOADED = {"service_image_delivery": "preloaded", "service_image_reference": "registry.example.org/kube-scheduling/services:1"}
LOCAL = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}


@pytest.fixture(scope="module")
def served(lab_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """A controller with the objects of the playbook. Its kubeconfig is that of the cluster."""
    with controller() as served:
        run = set_up(
            served,
            tmp_path_factory.mktemp("awx"),
            awx_setup_credential="kubeconfig",
            awx_setup_kubeconfig_path=str(lab_cluster.kubeconfig),
            awx_setup_clusters={"cluster": {}, "gone": {"kube_context": "nowhere"}},
            awx_setup_nodes={"kube_control_plane": {"master": LOCAL}, "kube_node": {"worker": LOCAL}},
        )
        assert run.code == 0, run.output
        yield served


@pytest.fixture(scope="module")
def launcher(served: Controller, packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Launcher:
    return Launcher(served, packages, tmp_path_factory.mktemp("jobs"))


@contextmanager
def credential(served: Controller, kind: str, **inputs: Any) -> Iterator[None]:
    """Give the credential of the cluster another type and other inputs."""
    item = served.named("credentials", "kube-scheduling")
    before = dict(item)
    item.update(credential_type=served.named("credential_types", kind)["id"], inputs=inputs)
    yield
    item.update(before)


@contextmanager
def host_variables(served: Controller, name: str, **variables: Any) -> Iterator[None]:
    """Give a host of the inventory these variables."""
    item = served.named("hosts", name)
    before = item["variables"]
    item["variables"] = json.dumps(variables)
    yield
    item["variables"] = before


@pytest.fixture
def piled(lab_cluster: Cluster, namespaces: NamespaceFactory) -> str:
    """A namespace with a Deployment whose replicas are all on one node."""
    namespace = namespaces("piled", annotations={"kube-scheduling.onprem/spread": "allow"})
    pile_up(lab_cluster, deployment(namespace, "web", 3))
    return namespace


def nodes_of(cluster: Cluster, namespace: str) -> set[str]:
    pods = pods_of(cluster, deployment(namespace, "web", 3))
    return {pod["spec"]["nodeName"] for pod in pods if "deletionTimestamp" not in pod["metadata"]}


@pytest.fixture
def reader(lab_cluster: Cluster) -> Iterator[str]:
    """The kubeconfig of a user with the rights for checks in docs/rebalance.md."""
    lab_cluster.apply(LOOK)
    lab_cluster.wait_namespace("kube-scheduling")
    yield lab_cluster.service_account("rebalance", namespace="kube-scheduling", cluster_role=None).read_text()
    lab_cluster.kubectl("delete", "--filename", "-", "--ignore-not-found", input=LOOK)


def test_spread_check_from_the_defaults_of_its_survey_needs_only_rights_to_read(
    lab_cluster: Cluster, served: Controller, launcher: Launcher, piled: str, reader: str
) -> None:
    before = lab_cluster.audit().mark()
    with credential(served, "kubeconfig file", kubeconfig=reader):
        job = launcher.launch("spread-check", limit="cluster")
    assert job.status == "successful", job.output
    assert set(job.artifacts) == {"kube_scheduling_rebalance"}
    numbers = job.artifacts["kube_scheduling_rebalance"]["cluster"]
    assert numbers["ok"] and numbers["collapsed_before"] >= 1 and numbers["restartable"] >= 1 and numbers["restarted"] == 0
    assert f"deploy {piled}/web" in job.output
    requests = list(lab_cluster.audit().events(since=before, user=USER, stages=(STARTED, COMPLETE)))
    assert requests and {request.verb for request in requests} <= {"get", "list"}


def test_spread_check_runs_with_a_bearer_token_and_only_in_the_namespaces_of_its_answer(
    lab_cluster: Cluster, served: Controller, launcher: Launcher, piled: str, namespaces: NamespaceFactory
) -> None:
    empty = namespaces("empty", annotations={"kube-scheduling.onprem/spread": "allow"})
    config = yaml.safe_load(lab_cluster.service_account("awx-token", cluster_role="cluster-admin").read_text())
    (cluster,), (user,) = config["clusters"], config["users"]
    inputs = {
        "host": cluster["cluster"]["server"],
        "bearer_token": user["user"]["token"],
        "verify_ssl": True,
        "ssl_ca_cert": base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode(),
    }
    with credential(served, BEARER_TYPE, **inputs):
        job = launcher.launch("spread-check", {"survey_rebalance_namespaces": f"{piled}\n{empty}\n"}, limit="cluster")
    assert job.status == "successful", job.output
    assert job.artifacts["kube_scheduling_rebalance"]["cluster"]["checked"] == 1


def test_rebalance_spreads_and_the_verification_compares_with_its_numbers(
    lab_cluster: Cluster, launcher: Launcher, piled: str, namespaces: NamespaceFactory
) -> None:
    answers = {
        "survey_rebalance_namespaces": piled,
        "rebalance_max_parallel": 2,
        "rebalance_kinds": ["Deployment"],
        "rebalance_max_skew": "1",
    }
    plan = launcher.launch("rebalance", answers, limit="cluster", job_type="check")
    assert plan.status == "successful" and plan.artifacts["kube_scheduling_rebalance"]["cluster"]["plan"], plan.output
    assert len(nodes_of(lab_cluster, piled)) == 1

    # As in the workflow, in which a job has the artifacts of the jobs before as variables.
    done = launcher.launch("rebalance", answers, artifacts=plan.artifacts, limit="cluster")
    numbers = done.artifacts["kube_scheduling_rebalance"]["cluster"]
    assert done.status == "successful" and (numbers["restarted"], numbers["improved"], numbers["collapsed_after"]) == (1, 1, 0), done.output
    assert len(nodes_of(lab_cluster, piled)) == 3

    checked = {name: value for name, value in answers.items() if name != "rebalance_max_parallel"}
    verified = launcher.launch("spread-verify", checked, artifacts=done.artifacts, limit="cluster")
    assert verified.status == "successful", verified.output
    expected = {"ok": True, "cluster": numbers["cluster"], "collapsed": 0, "skewed": 0, "error": ""}
    assert verified.artifacts["kube_scheduling_spread_verify"] == {"cluster": expected}

    worse = namespaces("worse", annotations={"kube-scheduling.onprem/spread": "allow"})
    pile_up(lab_cluster, deployment(worse, "web", 3))
    answer = {**checked, "survey_rebalance_namespaces": f"{piled}\n{worse}"}
    # The survey of the workflow also asks for variables of the restarts, and passes them to each job.
    passed = {**done.artifacts, "rebalance_plan_only": "false", "rebalance_strategy": "rollout"}
    refused = launcher.launch("spread-verify", answer, artifacts=passed, limit="cluster")
    error = "cluster has 1 collapsed workloads, and had 0 after the run of rebalance"
    assert refused.status == "failed" and error in refused.output
    assert refused.artifacts["kube_scheduling_spread_verify"]["cluster"]["error"] == error
    assert len(nodes_of(lab_cluster, worse)) == 1

    without = launcher.launch("spread-verify", checked, limit="cluster")
    assert without.status == "failed" and "for cluster: pass kube_scheduling_rebalance" in without.output


def test_rebalance_from_the_defaults_of_its_survey_keeps_the_variables_of_each_host(
    lab_cluster: Cluster, served: Controller, launcher: Launcher, piled: str
) -> None:
    with host_variables(served, "cluster", rebalance_namespaces=[piled]):
        job = launcher.launch("rebalance")
    numbers = job.artifacts["kube_scheduling_rebalance"]
    # The other cluster cannot be reached, and does not stop this one.
    assert job.status == "failed" and "nowhere" in numbers["gone"]["error"], job.output
    assert (numbers["cluster"]["checked"], numbers["cluster"]["restarted"], numbers["cluster"]["ok"]) == (1, 1, True), job.output
    assert len(nodes_of(lab_cluster, piled)) == 3


def test_critical_rescue_runs_from_the_defaults_of_its_survey_and_with_answers(launcher: Launcher) -> None:
    job = launcher.launch("critical-rescue", limit="cluster")
    assert job.status == "successful", job.output
    numbers = job.artifacts["kube_scheduling_rescue"]["cluster"]
    assert numbers["ok"] and not numbers["plan"] and numbers["victims"] == 0
    answers = {"survey_rescue_namespaces": "kube-system\nkube-node-lease", "rescue_grace_period": "20s", "rescue_allow_bare_pods": "true"}
    plan = launcher.launch("critical-rescue", answers, limit="cluster", job_type="check")
    assert plan.status == "successful" and plan.artifacts["kube_scheduling_rescue"]["cluster"]["plan"], plan.output


def test_scheduler_profile_is_refused_from_the_defaults_of_its_survey(launcher: Launcher) -> None:
    job = launcher.launch("scheduler-profile")
    numbers = job.artifacts["kube_scheduling_scheduler"]["localhost"]
    assert job.status == "failed" and not numbers["ok"] and "extended_scheduler_extender_image" in numbers["error"], job.output


@pytest.mark.full
def test_scheduler_profile_is_planned_with_an_image(launcher: Launcher) -> None:
    image = {"extended_scheduler_extender_image": PRELOADED["service_image_reference"]}
    plan = launcher.launch("scheduler-profile", image, job_type="check")
    assert plan.status == "successful", plan.output
    numbers = plan.artifacts["kube_scheduling_scheduler"]["localhost"]
    assert numbers == {
        "ok": True,
        "plan": True,
        "cluster": numbers["cluster"],
        "changed": True,
        "bound": False,
        "error": "",
    }


@pytest.mark.full
def test_site_is_refused_without_an_image_on_the_nodes_and_planned_with_one(launcher: Launcher) -> None:
    # The default builds the image, and the hosts of this inventory have no container runtime.
    job = launcher.launch("site")
    numbers = job.artifacts["kube_scheduling_site"]["localhost"]
    assert job.status == "failed" and not numbers["ok"] and not numbers["changed"], job.output
    assert numbers["error"].startswith("Nothing was changed. Failed checks:") and "master has no socket" in numbers["error"]
    plan = launcher.launch("site", PRELOADED, job_type="check")
    assert plan.status == "successful", plan.output
    numbers = plan.artifacts["kube_scheduling_site"]["localhost"]
    assert (numbers["ok"], numbers["plan"], numbers["installed"]) == (True, True, ["spread_cronjob", "critical_rescuer"])
