# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The alerts and the dashboards on a real Prometheus that scrapes the real programs: two extenders, two schedulers, rescuer and rebalancer.

One extender has no source that answers. One Deployment is collapsed, and its strategy Recreate forbids a restart.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab import ports
from lab.cluster import Cluster
from lab.prometheus_config import Target
from lab.prometheus_server import PrometheusServer, prometheus_server
from lab.pytest_fixtures import NamespaceFactory
from lab.second_scheduler import render, second_scheduler
from tests.integration.extender.conftest import StartExtender, extender_kubeconfig, start_extender, traffic
from tests.integration.extender.extender_process import Extender
from tests.integration.extender.traffic import PROFILE, Traffic, settings
from tests.integration.extender.waiting_pods import WaitingPods
from tests.integration.rebalancer.program import Rebalancer
from tests.integration.rescuer.daemons import Daemon
from tests.integration.workloads import deployment, pile_up, wait_until
from tests.monitoring_queries import DASHBOARDS, FOREIGN, alert_queries, metrics_of, panel_queries
from tools.rendered_base import ALERTS

__all__ = ["extender_kubeconfig", "start_extender", "traffic"]

Json = dict[str, Any]

NOBODY = "http://127.0.0.1:1"
LEASE = "monitoring-test"
PANELS = [query for file in DASHBOARDS for query in panel_queries(file)]
WITHOUT_DATA = {"sum by (agent) (rate(kube_scheduling_extender_agent_errors_total[5m]))"}
"""Queries without a result here: no agent of the collection raises an error."""
PENDING = {"KubeSchedulingWorkloadStaysCollapsed", "KubeSchedulingExtenderDataStale"}
"""The alerts whose expression is true here."""
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def namespace(lab_cluster: Cluster, namespaces: NamespaceFactory) -> Iterator[str]:
    name = namespaces("monitoring", annotations={"kube-scheduling.onprem/spread": "allow"})
    yield name
    lab_cluster.kubectl("delete", "deployment,pod", "--all", "--namespace", name, "--wait=false")
    wait_until(lambda: not lab_cluster.get(f"/api/v1/namespaces/{name}/pods")["items"], what="the end of the pods")


@pytest.fixture(scope="module")
def extenders(start_extender: StartExtender, traffic: Traffic, extender_kubeconfig: Path) -> list[Extender]:
    """An extender with data, and one without, which has refused a request and answered another one with equal scores."""
    good = start_extender(settings(traffic, str(extender_kubeconfig)))
    bad = start_extender(settings(traffic, str(extender_kubeconfig), urls=[NOBODY]))
    bad.scores(traffic.workers, PROFILE)
    assert bad.post("prioritize", {})[0] == 400
    return [good, bad]


@pytest.fixture(scope="module")
def scheduler(lab_cluster: Cluster, extenders: list[Extender], namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port for metrics of a scheduler that asks the extender, and has bound pods."""
    folder = tmp_path_factory.mktemp("scheduler")
    (port,) = ports.reserve(folder, 1)
    configuration = render("extender", url=extenders[0].url, scheduler_name=PROFILE)
    configuration["extenders"][0] |= {"prioritizeVerb": "prioritize", "weight": 1}
    flags = [
        f"--secure-port={port}",
        "--authorization-always-allow-paths=/metrics",
        "--leader-elect",
        f"--leader-elect-resource-name={LEASE}",
    ]
    with second_scheduler(lab_cluster, configuration, folder, flags=flags):
        WaitingPods(lab_cluster, namespace).bind(3, PROFILE)
        yield port
    lab_cluster.kubectl("delete", "lease", LEASE, "--namespace", "kube-system")


@pytest.fixture(scope="module")
def programs(lab_cluster: Cluster, namespace: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Daemon, Rebalancer]]:
    """A rescuer that leads, and a rebalancer that has made a pass."""
    folder = tmp_path_factory.mktemp("programs")
    pile_up(lab_cluster, deployment(namespace, "web", 2, strategy={"type": "Recreate"}))
    user = lab_cluster.service_account("monitoring")
    with contextlib.ExitStack() as running:
        rescuer = Daemon(lab_cluster, folder / "rescuer.log", kubeconfig=user)
        running.callback(rescuer.stop)
        flags = (f"--namespaces={namespace}", f"--kubeconfig={user}", "--listen-address=127.0.0.1:0", "--interval=1s")
        rebalancer = Rebalancer(folder / "rebalancer.log", *flags)
        running.callback(rebalancer.stop)
        rescuer.wait_ready()
        wait_until(lambda: rescuer.leads, timeout_s=60, what="a leader")
        rebalancer.wait_for("pass ended")
        yield rescuer, rebalancer
    for kind in ("configmap", "lease"):
        lab_cluster.kubectl("delete", kind, "kube-scheduling-rescue", "--namespace", "kube-system", "--ignore-not-found")


@pytest.fixture(scope="module")
def prometheus(
    lab_cluster: Cluster,
    extenders: list[Extender],
    scheduler: int,
    programs: tuple[Daemon, Rebalancer],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[PrometheusServer]:
    """A Prometheus with the alerts, which has scraped each program several times."""
    folder = tmp_path_factory.mktemp("monitoring")
    rescuer, rebalancer = programs
    addresses = [program.said("serving metrics and health")[0]["address"] for program in (rescuer, rebalancer)]
    addresses += [extender.status_address for extender in extenders]
    own = lab_cluster.address("kube-scheduler").removeprefix("https://")
    schedulers = folder / "schedulers.yml"
    schedulers.write_text(yaml.safe_dump(scheduler_jobs(lab_cluster, own, f"127.0.0.1:{scheduler}")))
    targets = [Target(address) for address in addresses]
    with prometheus_server(lab_cluster, folder, targets, rule_files=[ALERTS], scrape_config_files=[schedulers]) as server:
        count = len(addresses) + 2
        try:
            wait_until(lambda: len(server.query("sum_over_time(up[1m]) > 4")) == count, timeout_s=60, what="several scrapes")
        except AssertionError as error:
            failed = {target["scrapeUrl"]: target["lastError"] for target in ask(server, "targets")["activeTargets"] if target["lastError"]}
            raise AssertionError(f"{error}: {failed}") from error
        yield server


def scheduler_jobs(cluster: Cluster, *addresses: str) -> Json:
    """Return the scrape configurations of schedulers, whose certificates nobody has signed."""
    tls = {"cert_file": str(cluster.layout.pki / "admin.crt"), "key_file": str(cluster.layout.pki / "admin.key")}
    job = {"scheme": "https", "tls_config": {**tls, "insecure_skip_verify": True}}
    return {"scrape_configs": [{"job_name": f"scheduler-{at}", "static_configs": [{"targets": [at]}], **job} for at in addresses]}


def ask(prometheus: PrometheusServer, path: str, **parameters: Any) -> Any:
    url = f"{prometheus.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
    with urllib.request.urlopen(url, timeout=20) as answer:
        return json.load(answer)["data"]


def test_each_metric_and_label_of_alerts_and_panels_is_scraped_from_a_program(prometheus: PrometheusServer) -> None:
    names = set(ask(prometheus, "label/__name__/values"))
    # A counter with a label has no series before its first event, but the program already serves its description.
    described = {entry["metric"] for entry in ask(prometheus, "targets/metadata")}
    unknown, wrong = set(), []
    for query in (*PANELS, *alert_queries()):
        for name, labels in metrics_of(query.expression):
            if name in FOREIGN:
                known = FOREIGN[name]
            elif name in names:
                known = {label for series in ask(prometheus, "series", **{"match[]": name}) for label in series}
            else:
                unknown |= set() if name.removesuffix("_total") in described else {name}
                continue
            wrong += [(query.place, name, label) for label in labels - known]
    assert (unknown, wrong) == (set(), [])


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_each_query_of_a_dashboard_has_a_result(prometheus: PrometheusServer, file: Path) -> None:
    now_s = time.time()
    queries = panel_queries(file)
    found = [ask(prometheus, "query_range", query=query.expression, start=now_s - 5, end=now_s, step=1) for query in queries]
    empty = {query.expression for query, answer in zip(queries, found, strict=True) if not answer["result"]}
    assert empty == WITHOUT_DATA & {query.expression for query in queries}


def test_the_variable_of_a_dashboard_has_the_profile(prometheus: PrometheusServer) -> None:
    assert PROFILE in ask(prometheus, "label/profile/values", **{"match[]": "kube_scheduling_extender_requests_total"})


def test_prometheus_evaluates_each_alert_and_only_the_right_ones_become_pending(prometheus: PrometheusServer) -> None:
    def states() -> dict[str, str]:
        rules = [rule for group in ask(prometheus, "rules")["groups"] for rule in group["rules"]]
        assert [rule["lastError"] for rule in rules if rule["health"] == "err"] == []
        return {rule["name"]: rule["state"] for rule in rules}

    wait_until(lambda: {name for name, state in states().items() if state == "pending"} == PENDING, what="the pending alerts")
    assert set(states()) == {query.place for query in alert_queries()}
    assert set(states().values()) == {"pending", "inactive"}
    (collapsed,) = prometheus.query('ALERTS{alertname="KubeSchedulingWorkloadStaysCollapsed"}')
    assert (collapsed["metric"]["workload_kind"], collapsed["metric"]["workload_name"]) == ("Deployment", "web")
    (uneven,) = prometheus.query("kube_scheduling_rebalance_uneven_workload")
    assert uneven["metric"]["reason"] == "downtime"


def test_kustomize_makes_the_rule_and_a_config_map_of_the_dashboards(lab_cluster: Cluster) -> None:
    made = {entry["kind"]: entry for entry in yaml.safe_load_all(lab_cluster.kubectl("kustomize", str(ALERTS.parent)))}
    assert set(made) == {"PrometheusRule", "ConfigMap"}
    assert made["PrometheusRule"]["spec"] == yaml.safe_load(ALERTS.read_text())
    assert made["ConfigMap"]["metadata"]["labels"] == {"grafana_dashboard": "1"}
    assert {name: json.loads(text) for name, text in made["ConfigMap"]["data"].items()} == {
        f"kube-scheduling-{file.name}": json.loads(file.read_text()) for file in DASHBOARDS
    }
