# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Verdicts of the spread check: what counts as spread, and over which domains."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.check.result import check_result, nodes_to_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.eligible_nodes import EligibleNodes
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions, parse_annotation_selector
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.decision import decide_restart
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.restart.options import RestartOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.spread_report import WorkloadReport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.restart_outcome import (
    OUTCOME_ANNOTATION,
    eligible_hash,
    make_outcome,
)

from tests.unit.support.cluster import NOW, ClusterBuilder, revision_of, workers

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


def check_one(cluster: ClusterBuilder, **options: t.Any) -> WorkloadReport:
    report = check_spread(cluster.snapshot(), CheckOptions(**options))
    assert not report.reason, report.reason
    (line,) = report.workloads
    return line


def verdict(cluster: ClusterBuilder, **options: t.Any) -> tuple[str, str]:
    line = check_one(cluster, **options)
    return line.verdict.verdict, line.verdict.reason.code


def test_all_replicas_on_one_of_several_nodes_are_collapsed():
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 3)
    line = check_one(cluster)
    assert line.verdict.verdict == "collapsed"
    assert "3 placed replicas in kubernetes.io/hostname=worker-1, " in line.verdict.reason.text
    assert line.distributions[0].listed == {"worker-1": 3, "worker-2": 0, "worker-3": 0}


def test_two_nodes_are_enough_to_be_healthy_unless_a_skew_is_asked_for():
    cluster = workers(3)
    cluster.deployment("web", ["worker-1"] * 4 + ["worker-2"])
    assert verdict(cluster) == ("healthy", "spread")
    assert check_one(cluster).verdict.reason.text == "not collapsed over kubernetes.io/hostname"
    assert verdict(cluster, max_skew=2) == ("skewed", "skewed")
    assert verdict(cluster, max_skew=4) == ("healthy", "spread")


def test_a_workload_with_a_longer_name_does_not_count_as_spread():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2)
    cluster.pod("web-admin-0", "worker-2", owner=("ReplicaSet", "someone-else"))
    assert verdict(cluster)[0] == "collapsed"


@pytest.mark.parametrize(
    "extra",
    [
        pytest.param({"node": "", "phase": "Pending"}, id="pending"),
        pytest.param({"node": "worker-2", "phase": "Failed"}, id="failed"),
        pytest.param({"node": "worker-2", "phase": "Succeeded"}, id="succeeded"),
        pytest.param({"node": "worker-2", "deletionTimestamp": "2026-01-01T00:00:00Z"}, id="terminating"),
    ],
)
def test_pods_that_do_not_run_permanently_do_not_count_as_spread(extra):
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, replicas=3)
    cluster.pod("web-9", owner=("ReplicaSet", "rs-web-hash1"), **extra)
    assert verdict(cluster)[0] == "collapsed"


def test_pods_of_an_older_revision_make_it_rolling_but_not_those_that_are_finished_or_leaving():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2)
    cluster.replica_set("web", 0, "old")
    cluster.pod("web-old", "worker-2", owner=("ReplicaSet", "rs-web-old"), phase="Failed")
    cluster.pod("web-leaving", "worker-2", owner=("ReplicaSet", "rs-web-old"), deletionTimestamp="2026-01-01T00:00:00Z")
    assert verdict(cluster)[0] == "collapsed"
    cluster.pod("web-older", "worker-2", owner=("ReplicaSet", "rs-web-old"))
    assert verdict(cluster)[0] == "rolling"


@pytest.mark.parametrize(
    ("start", "partition", "old", "expected"),
    [
        pytest.param(0, 1, 0, "collapsed", id="kept by the partition"),
        pytest.param(5, 1, 5, "collapsed", id="kept by the partition, which counts from the first ordinal"),
        pytest.param(5, 1, 6, "rolling", id="above the partition"),
        pytest.param(5, 1, 4, "rolling", id="below the first ordinal, about to go"),
        pytest.param(5, 0, 5, "rolling", id="no partition"),
    ],
)
def test_old_pods_of_a_stateful_set_make_it_rolling_unless_its_partition_keeps_them(start, partition, old, expected):
    cluster = workers(2)
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
    cluster.stateful_set("db", ["worker-1"] * 3, updateStrategy=update, ordinals={"start": start})
    cluster.pods[:] = [pod for pod in cluster.pods if pod.metadata.name != f"db-{old}"]
    cluster.pod(f"db-{old}", "worker-1", owner=("StatefulSet", "s-db"), labels={"controller-revision-hash": "rev0"})
    assert verdict(cluster)[0] == expected


@pytest.mark.parametrize(
    ("status", "metadata", "expected"),
    [
        ({"observedGeneration": 1}, {"generation": 2}, "rolling"),
        ({"updatedReplicas": 1}, {}, "rolling"),
        ({"availableReplicas": 0, "readyReplicas": 0}, {}, "collapsed"),
    ],
)
def test_rolling_is_about_revisions_not_about_readiness(status, metadata, expected):
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, status=status, metadata=metadata)
    assert verdict(cluster)[0] == expected


def test_one_placed_replica_cannot_be_judged():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1", "", ""])
    assert verdict(cluster) == ("unknown", "not_placed")


@pytest.mark.parametrize("replicas", [0, 1])
def test_fewer_than_two_replicas_are_skipped(replicas):
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * replicas)
    assert verdict(cluster) == ("skipped", "too_few_replicas")


def test_the_annotation_on_workload_or_namespace_opts_out():
    ignore = {"kube-scheduling.onprem/spread": "ignore"}
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, metadata={"annotations": ignore})
    assert verdict(cluster) == ("skipped", "ignored")
    cluster = workers(2)
    cluster.namespaces.clear()
    cluster.namespace("app", {"collectdeployments": "allow", **ignore})
    cluster.deployment("web", ["worker-1"] * 2)
    assert verdict(cluster) == ("skipped", "ignored")


def test_any_other_value_of_the_annotation_does_not():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, metadata={"annotations": {"kube-scheduling.onprem/spread": "Ignore"}})
    assert verdict(cluster)[0] == "collapsed"


def test_a_namespace_that_is_being_deleted_is_skipped():
    cluster = workers(2)
    cluster.namespaces.clear()
    cluster.namespace("app", {"kube-scheduling.onprem/spread": "allow"}, phase="Terminating")
    cluster.deployment("web", ["worker-1"] * 2)
    assert verdict(cluster) == ("skipped", "namespace_terminating")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("Allow", "its annotation kube-scheduling.onprem/spread is 'Allow', not 'allow'"),
        ("allowed", "kubectl annotate --overwrite namespace app kube-scheduling.onprem/spread=allow"),
        ("", "its annotation kube-scheduling.onprem/spread is ''"),
        (None, "namespace has no annotation kube-scheduling.onprem/spread=allow; to include it: kubectl annotate namespace app "),
    ],
)
def test_the_namespace_annotation_is_compared_exactly(value, said):
    cluster = workers(2)
    cluster.namespaces.clear()
    cluster.namespace("app", {} if value is None else {"kube-scheduling.onprem/spread": value})
    cluster.deployment("web", ["worker-1"] * 2)
    nothing = check_spread(cluster.snapshot(), CheckOptions())
    assert nothing.workloads == () and "kubectl annotate namespace NAME kube-scheduling.onprem/spread=allow" in str(nothing.reason)
    named = check_spread(cluster.snapshot(), CheckOptions(namespaces=["app"]))
    assert named.skipped_namespaces["app"].code == "not_annotated" and said in named.skipped_namespaces["app"].text
    assert str(named.reason).startswith("no_namespace: ")
    assert len(check_spread(cluster.snapshot(), CheckOptions(namespace_annotations=())).workloads) == 1


@pytest.mark.parametrize(
    ("annotation", "option", "is_checked"),
    [
        ({"kube-scheduling.onprem/spread": "allow"}, None, True),
        ({"collectdeployments": "allow"}, None, True),
        ({"collectdeployments": "deny"}, None, False),
        ({"collectdeployments": "allow"}, "kube-scheduling.onprem/spread=allow", False),
        ({"kube-scheduling.onprem/spread": "allow"}, "collectdeployments=allow", False),
        ({"collectdeployments": "allow"}, "collectdeployments=allow", True),
    ],
)
def test_the_annotation_of_the_original_counts_too_and_a_given_one_only_itself(annotation, option, is_checked):
    cluster = workers(2)
    cluster.namespaces.clear()
    cluster.namespace("app", annotation)
    cluster.deployment("web", ["worker-1"] * 2)
    options = CheckOptions(namespace_annotations=parse_annotation_selector(option))
    assert len(check_spread(cluster.snapshot(), options).workloads) == is_checked


class TestEligibleNodes:
    """The tolerations and selectors of a workload decide whether a node is eligible, not the name of the node."""

    def test_a_tainted_node_is_no_domain_for_what_does_not_tolerate_it(self):
        cluster = workers(1)
        cluster.node("other", taints=[{"key": "dedicated", "value": "db", "effect": "NoExecute"}])
        cluster.deployment("web", ["worker-1"] * 2, template={"spec": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}})
        cluster.deployment("plain", ["worker-1"] * 2)
        lines = {line.workload.metadata.name: line.verdict for line in check_spread(cluster.snapshot(), CheckOptions()).workloads}
        assert lines["web"].verdict == "collapsed"
        assert (lines["plain"].verdict, lines["plain"].reason.code) == ("healthy", "single_domain")

    def test_an_untainted_control_plane_node_counts(self):
        cluster = workers(1)
        cluster.node("control-plane", labels={"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/master": ""})
        cluster.deployment("web", ["worker-1"] * 2)
        assert verdict(cluster)[0] == "collapsed"

    @pytest.mark.parametrize("node", [{"unschedulable": True}, {"ready": False}])
    def test_cordoned_and_unready_nodes_are_none(self, node):
        cluster = workers(2)
        cluster.node("other", **node)
        cluster.deployment("web", ["worker-1", "worker-2"])
        assert "other" not in check_one(cluster).distributions[0].listed

    def test_another_architecture_counts_only_if_the_template_speaks_of_it(self):
        arm = {"kubernetes.io/arch": "arm64"}
        cluster = ClusterBuilder()
        cluster.node("amd", labels={"kubernetes.io/arch": "amd64"})
        cluster.node("arm", labels=arm)
        cluster.node("arm-2", labels=arm)
        cluster.deployment("web", ["amd", "amd"])
        assert verdict(cluster) == ("healthy", "single_domain")
        expression = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64", "arm64"]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
        cluster.deployments.clear()
        cluster.deployment("multi", ["amd", "amd"], template={"spec": {"affinity": {"nodeAffinity": required}}})
        assert verdict(cluster)[0] == "collapsed"

    def test_workloads_on_two_architectures_may_use_both(self):
        cluster = ClusterBuilder()
        for name, arch in (("amd", "amd64"), ("arm", "arm64"), ("arm-2", "arm64")):
            cluster.node(name, labels={"kubernetes.io/arch": arch})
        cluster.deployment("web", ["amd", "arm"])
        assert check_one(cluster).distributions[0].listed == {"amd": 1, "arm": 1, "arm-2": 0}

    @pytest.mark.parametrize(
        ("template", "expected"),
        [
            (None, "healthy"),
            ({"spec": {"tolerations": [{"operator": "Exists"}]}}, "healthy"),
            ({"spec": {"tolerations": [{"key": "virtual-kubelet.io/provider", "operator": "Exists"}]}}, "collapsed"),
        ],
    )
    def test_a_virtual_kubelet_counts_only_if_it_is_tolerated_by_name(self, template, expected):
        cluster = workers(1)
        cluster.node("virtual", labels={"type": "virtual-kubelet"}, taints=[{"key": "virtual-kubelet.io/provider", "effect": "NoSchedule"}])
        cluster.deployment("web", ["worker-1"] * 2, template=template)
        assert check_spread(cluster.snapshot(), CheckOptions(min_ready_nodes=1)).workloads[0].verdict.verdict == expected


class TestTopologyKeys:
    """Zones and racks, and several keys together."""

    def test_zones(self):
        cluster = workers(4)
        cluster.deployment("web", ["worker-1", "worker-3"])
        assert verdict(cluster) == ("healthy", "spread")
        line = check_one(cluster, topology_keys=[ZONE])
        assert (line.verdict.verdict, line.distributions[0].listed) == ("collapsed", {"a": 2, "b": 0})

    def test_of_several_keys_the_worst_decides_and_is_named(self):
        cluster = workers(4)
        cluster.deployment("web", ["worker-1", "worker-3"])
        line = check_one(cluster, topology_keys=[HOST, ZONE])
        assert line.verdict.verdict == "collapsed" and ZONE in line.verdict.reason.text

    def test_a_label_that_no_node_has_cannot_be_judged(self):
        cluster = workers(2)
        cluster.deployment("web", ["worker-1"] * 2)
        assert verdict(cluster, topology_keys=["rack"]) == ("unknown", "no_domain")

    def test_replicas_on_nodes_without_the_label_cannot_be_judged(self):
        cluster = workers(2)
        cluster.node("bare", labels={})
        cluster.deployment("web", ["worker-1", "bare"])
        assert verdict(cluster, topology_keys=[ZONE]) == ("unknown", "no_domain")

    def test_a_key_with_one_domain_does_not_speak_for_the_others(self):
        cluster = ClusterBuilder()
        for name in ("a-1", "a-2"):
            cluster.node(name, labels={ZONE: "a"})
        cluster.deployment("web", ["a-1", "a-2"])
        assert verdict(cluster, topology_keys=[ZONE, HOST]) == ("healthy", "spread")
        cluster.deployment("piled-up", ["a-1", "a-1"])
        cluster.deployments.pop(0)
        assert verdict(cluster, topology_keys=[ZONE, HOST]) == ("collapsed", "collapsed")

    def test_a_domain_whose_nodes_are_all_closed_is_not_counted_as_empty(self):
        cluster = ClusterBuilder()
        cluster.node("a-1", labels={ZONE: "a"})
        cluster.node("a-2", labels={ZONE: "a"})
        cluster.node("b-1", labels={ZONE: "b"}, unschedulable=True)
        cluster.deployment("web", ["a-1", "a-2"])
        assert verdict(cluster, topology_keys=[ZONE]) == ("healthy", "single_domain")


class TestNoOp:
    """Clusters with nowhere to spread to."""

    def test_fewer_nodes_than_asked_for(self):
        cluster = workers(1)
        cluster.node("control-plane", taints=[{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}])
        cluster.deployment("web", ["worker-1"] * 2)
        report = check_spread(cluster.snapshot(), CheckOptions())
        assert str(report.reason).startswith("too_few_ready_nodes: ") and str(report.reason).endswith(": 1, min_ready_nodes: 2")
        assert (report.nodes_total, report.nodes_ready, report.nodes_eligible, report.workloads) == (2, 2, 1, ())

    def test_no_nodes_at_all(self):
        assert str(check_spread(ClusterBuilder().snapshot(), CheckOptions()).reason).startswith("too_few_ready_nodes: ")


def test_result_lists_what_is_not_healthy_and_counts_everything():
    cluster = workers(2)
    cluster.deployment("bad", ["worker-1"] * 2)
    cluster.deployment("good", ["worker-1", "worker-2"])
    report = check_spread(cluster.snapshot(), CheckOptions())
    result = check_result(report, CheckOptions(), include_healthy=False)
    assert [workload["name"] for workload in result["workloads"]] == ["bad"]
    assert [workload["name"] for workload in check_result(report, CheckOptions(), include_healthy=True)["workloads"]] == ["bad", "good"]
    assert result["summary"] == {
        "namespaces": 1, "checked": 2, "healthy": 1, "collapsed": 1, "skewed": 0, "rolling": 0, "skipped": 0, "unknown": 0,
        "restartable": 1,
    }  # fmt: skip
    assert result["uneven"] == result["restartable"] == [{"kind": "Deployment", "namespace": "app", "name": "bad"}]
    assert result["restartable"] == [{"kind": "Deployment", "namespace": "app", "name": "bad"}]


def test_result_has_the_code_and_the_text_of_each_reason_in_two_keys():
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, strategy={"type": "Recreate"}, template={"spec": {"schedulerName": "mine"}})
    (line,) = check_result(check_spread(cluster.snapshot(), CheckOptions()), CheckOptions(), include_healthy=False)["workloads"]
    assert line["reason"] == "collapsed"
    assert line["message"] == f"all 2 placed replicas in {HOST}=worker-1, 2 domains are eligible"
    assert [(advice["reason"], set(advice)) for advice in line["advice"]] == [("no_spreading_rule", {"reason", "message", "patch"})]
    assert line["advice"][0]["message"].startswith("add a topologySpreadConstraint")
    foreign, downtime = line["blockers"]
    assert "see scheduler_config" in foreign.pop("message") and foreign == {"reason": "foreign_scheduler", "nodes": 2}
    assert "the Recreate strategy of Deployment app/web " in downtime.pop("message") and downtime == {"reason": "downtime", "nodes": 0}


def test_the_list_of_nodes_has_what_maps_need():
    cluster = ClusterBuilder()
    cluster.node("b", labels={HOST: "b.example.org", ZONE: "z"})
    cluster.node("a", labels={HOST: ""}, unschedulable=True, ready=False)
    assert nodes_to_result(cluster.snapshot()) == [
        {"name": "a", "hostname": "", "zone": "", "ready": False, "schedulable": False},
        {"name": "b", "hostname": "b.example.org", "zone": "z", "ready": True, "schedulable": True},
    ]


def test_eligible_nodes_are_read_once_a_workload():
    cluster = workers(2)
    workload = cluster.deployment("web", ["worker-1"] * 2)
    eligible_nodes = EligibleNodes(cluster.snapshot())
    assert eligible_nodes.open_to_any([workload]) == {"worker-1", "worker-2"}
    eligible = eligible_nodes.of(workload)
    assert (eligible.names, eligible.rules_hash) == (("worker-1", "worker-2"), eligible_hash(["worker-1", "worker-2"]))
    assert eligible_nodes.of(workload) is eligible


def test_very_many_empty_domains_are_counted_and_not_listed():
    cluster = workers(101)
    cluster.deployment("web", ["worker-1"] * 2)
    (line,) = check_result(check_spread(cluster.snapshot(), CheckOptions()), CheckOptions(), include_healthy=False)["workloads"]
    assert (line["domains"], line["eligible_domains"]) == ({HOST: {"worker-1": 2}}, {HOST: 101})
    assert len(line["feasible_domains"][HOST]) == 20


def test_a_workload_in_its_cooldown_is_not_restartable():
    outcome = make_outcome(now_s=1_767_225_600.0, attempts=1, outcome="unchanged", revision="hash1", eligible="x")
    cluster = workers(2)
    cluster.deployment("web", ["worker-1"] * 2, metadata={"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}})
    lines = [check_spread(cluster.snapshot(read_at_s=1_767_225_600.0 + age_s), CheckOptions()).workloads[0] for age_s in (599, 600)]
    assert [line.restartable for line in lines] == [False, True]
    assert lines[0].refusal is not None and lines[0].refusal.code == "cooldown"


@pytest.mark.parametrize(
    ("age_s", "options", "restartable"),
    [
        (59, {"cooldown_s": 60}, False),
        (60, {"cooldown_s": 60}, True),
        (599, {}, False),
        (10**6, {"max_attempts": 1}, False),
        (10**6, {"max_attempts": 2}, True),
    ],
)
def test_the_check_calls_restartable_what_the_restart_will_do_with_the_same_cooldown_and_attempts(age_s, options, restartable):
    cluster = workers(2)
    hashed = eligible_hash(["worker-1", "worker-2"])
    outcome = make_outcome(now_s=NOW, attempts=1, outcome="unchanged", revision="hash1", eligible=hashed, number=1)
    cluster.deployment("web", ["worker-1"] * 2, metadata={"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation()}})
    snapshot = cluster.snapshot(read_at_s=NOW + age_s)
    (line,) = check_spread(snapshot, CheckOptions(**options)).workloads
    assert line.restartable is restartable
    decision = decide_restart(line, snapshot, RestartOptions(**options), now_s=NOW + age_s)
    assert (decision.action == "restart") is restartable


def _pending(name, restarted, **metadata):
    outcome = make_outcome(
        now_s=NOW - 7200, attempts=1, outcome="pending", revision="hash0" if restarted else revision_of(name), eligible="x"
    )
    annotations = {"kubectl.kubernetes.io/restartedAt": outcome.time} if restarted else {}
    return {
        "metadata": {"annotations": {OUTCOME_ANNOTATION: outcome.to_annotation(), **metadata}},
        "template": {"metadata": {"labels": {"app": name}, "annotations": annotations}},
    }


def test_what_was_interrupted_is_listed_whatever_its_verdict():
    cluster = workers(2)
    cluster.deployment("healthy", ["worker-1", "worker-2"], **_pending("healthy", restarted=True))
    cluster.deployment("uneven", ["worker-1", "worker-1"], **_pending("uneven", restarted=True))
    cluster.deployment("evicted", ["worker-1", "worker-2"], **_pending("evicted", restarted=False))
    cluster.deployment("quiet", ["worker-1", "worker-2"])
    ignored = {"kube-scheduling.onprem/spread": "ignore"}
    cluster.deployment("ignored", ["worker-1", "worker-2"], **_pending("ignored", restarted=True, **ignored))
    result = check_result(check_spread(cluster.snapshot(), CheckOptions()), CheckOptions(), include_healthy=False)
    assert [entry["name"] for entry in result["interrupted"]] == ["evicted", "healthy", "uneven"]
