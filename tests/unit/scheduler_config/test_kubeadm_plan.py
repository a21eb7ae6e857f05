# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The files for the schedulers of a cluster of kubeadm, and their removal byte by byte."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.filter.kubeadm_schedulers import kubeadm_schedulers

from tests.unit.scheduler_config.kubeadm_texts import MANIFEST, V1BETA3, V1BETA4

Json = dict[str, Any]

FOLDER = "/etc/kubernetes/extended-scheduler/scheduler"
EXTENDER = {
    "urlPrefix": "http://127.0.0.1:5401/scheduler", "prioritizeVerb": "prioritize", "weight": 5, "nodeCacheCapable": True,
    "ignorable": True, "httpTimeout": "200ms",
}  # fmt: skip
WANTED: Json = {"profiles": [{"schedulerName": "network-traffic"}], "extenders": [EXTENDER]}


ADVICE = "run the playbook onprem.kube_scheduling.site or onprem.kube_scheduling.scheduler"


def planned(hosts: dict[str, Json], cluster: str = "", **wanted: Any) -> Json:
    found: Json = kubeadm_schedulers(hosts, folder=FOLDER, manifest_path="/m.yaml", kubernetes_version="1.36.3", cluster=cluster, **wanted)
    return found


def one(manifest: str = MANIFEST, **wanted: Any) -> Json:
    found = planned({"cp-1": {"manifest": manifest}}, **wanted)
    assert found["errors"] == [], found["errors"]
    return {**found["hosts"]["cp-1"], "file": found["file"]}


def test_the_scheduler_of_kubeadm_gets_the_file_and_its_folder_and_keeps_the_rest() -> None:
    host = one(**WANTED)
    added = [line for line in host["manifest"].splitlines() if line not in MANIFEST.splitlines()]
    assert added == [
        f"    - --config={host['file']}", f"    - mountPath: {FOLDER}", "      name: extended-scheduler", f"      path: {FOLDER}",
        "      type: Directory", "    name: extended-scheduler",
    ]  # fmt: skip
    assert host["differs"] and host["original"] == host["previous"] == MANIFEST
    # kubeadm 1.36 writes flags and volumes in this order, so that it writes the same manifest.
    assert host["words"][-1] == f"--config={host['file']}"
    assert [entry["name"] for entry in yaml.safe_load(host["manifest"])["spec"]["volumes"]] == ["extended-scheduler", "kubeconfig"]


def test_the_configuration_has_the_default_profile_the_new_one_and_the_ignored_flags() -> None:
    config = yaml.safe_load(one(**WANTED)["config"])
    assert [profile["schedulerName"] for profile in config["profiles"]] == ["default-scheduler", "network-traffic"]
    assert config["extenders"] == [EXTENDER] and config["clientConnection"] == {"kubeconfig": "/etc/kubernetes/scheduler.conf"}
    assert "leaderElection" not in config


def test_the_default_profile_can_have_the_settings() -> None:
    profile = {"schedulerName": "default-scheduler", "percentageOfNodesToScore": 100}
    assert yaml.safe_load(one(profiles=[profile], extenders=[EXTENDER])["config"])["profiles"] == [profile]


def test_a_second_plan_changes_nothing_and_a_removal_restores_each_byte() -> None:
    first = one(**WANTED)
    again = one(first["manifest"], **WANTED)
    assert not again["differs"] and again["file"] == first["file"] and again["config"] == first["config"]
    assert one(first["manifest"])["manifest"] == MANIFEST
    assert not one()["differs"]


def test_another_order_of_the_flags_is_no_difference_and_another_flag_is_one() -> None:
    flag = f"    - --config={one(**WANTED)['file']}\n"
    in_use = one(**WANTED)["manifest"]
    sorted_flags = in_use.replace(flag, "").replace("    - --kubeconfig", f"{flag}    - --kubeconfig")
    assert sorted_flags != in_use and not one(sorted_flags, **WANTED)["differs"]
    assert one(sorted_flags)["manifest"] == MANIFEST
    assert one(in_use.replace("    - --leader-elect=true\n", ""), **WANTED)["words"] == [
        word for word in one(**WANTED)["words"] if word != "--leader-elect=true"
    ]


def test_another_configuration_has_another_file_and_one_changed_line() -> None:
    first = one(**WANTED)
    second = one(first["manifest"], profiles=[{"schedulerName": "quiet"}], extenders=[EXTENDER])
    changed = [line for line in second["manifest"].splitlines() if line not in first["manifest"].splitlines()]
    assert changed == [f"    - --config={second['file']}"] and second["file"] != first["file"]


def test_the_original_is_restored_only_while_the_rest_of_the_manifest_is_the_same() -> None:
    written = MANIFEST.replace("status: {}\n", "# a comment\n")
    in_use = one(MANIFEST, **WANTED)["manifest"]
    other = MANIFEST.replace("v1.36.3", "v1.37.0")
    same = planned({"cp-1": {"manifest": in_use, "original": MANIFEST + "# by hand\n"}})
    assert same["hosts"]["cp-1"]["manifest"] == MANIFEST + "# by hand\n"
    upgraded = planned({"cp-1": {"manifest": one(other, **WANTED)["manifest"], "original": MANIFEST}})
    assert upgraded["hosts"]["cp-1"]["manifest"] == other
    assert one(one(written, **WANTED)["manifest"])["manifest"] == written


def test_hosts_with_other_flags_have_other_contents_under_one_name() -> None:
    other = MANIFEST.replace("    - --leader-elect=true\n", "    - --kube-api-qps=70\n    - --leader-elect=true\n")
    found = planned({"cp-1": {"manifest": MANIFEST}, "cp-2": {"manifest": other}}, **WANTED)
    configs = [yaml.safe_load(found["hosts"][host]["config"])["clientConnection"] for host in ("cp-1", "cp-2")]
    assert configs[1] == {**configs[0], "qps": 70}
    assert all(f"--config={found['file']}" in found["hosts"][host]["words"] for host in ("cp-1", "cp-2"))
    third = planned({"cp-3": {"manifest": MANIFEST}, "cp-1": {"manifest": MANIFEST}, "cp-2": {"manifest": other}}, **WANTED)
    assert third["file"] == found["file"]


def test_an_interrupted_run_keeps_the_last_healthy_manifest() -> None:
    broken = one(**WANTED)["manifest"]
    found = planned({"cp-1": {"manifest": broken, "original": MANIFEST, "previous": MANIFEST}}, **WANTED)["hosts"]["cp-1"]
    assert not found["differs"] and found["is_interrupted"] and found["previous"] == MANIFEST
    assert found["previous_words"] == found["words"][:-1]


def test_the_profiles_in_use_and_the_address_of_the_health_check() -> None:
    in_use = one(**WANTED)
    found = planned({"cp-1": {"manifest": in_use["manifest"], "config": in_use["config"]}})["hosts"]["cp-1"]
    assert found["profiles"] == ["default-scheduler", "network-traffic"]
    assert found["health_url"] == "https://127.0.0.1:10259/healthz"
    assert found["lease"] == {"namespace": "kube-system", "name": "kube-scheduler"}
    other = MANIFEST.replace("--bind-address=127.0.0.1", "--bind-address=::\n    - --secure-port=1").replace("elect=true", "elect=false")
    assert one(other)["health_url"] == "https://127.0.0.1:1/healthz" and one(other)["lease"] == {}
    assert one(MANIFEST.replace("127.0.0.1", "fd00::1"))["health_url"] == "https://[fd00::1]:10259/healthz"


def test_a_configuration_that_was_edited_or_is_missing_is_named_and_written_again() -> None:
    in_use = one(**WANTED)
    read = {"manifest": in_use["manifest"], "original": MANIFEST}
    for config, sentence in {
        in_use["config"] + "# by hand\n": f"cp-1: {in_use['file']} was edited by hand: {ADVICE}, which writes it again",
        "": f"cp-1: the configuration that its manifest names does not exist, as after kubeadm join: {ADVICE}, which writes it",
    }.items():
        found = planned({"cp-1": {**read, "config": config}}, **WANTED)
        host = found["hosts"]["cp-1"]
        assert found["missing"] == [sentence] and host["changes"] and host["config"] == in_use["config"]
        assert not host["differs"] and host["lacks_config"] is not config
    unchanged = planned({"cp-1": {**read, "config": in_use["config"]}}, **WANTED)
    assert unchanged["missing"] == [] and not unchanged["hosts"]["cp-1"]["changes"]


@pytest.mark.parametrize("command", ["    - --config\n    - {}\n", "    - -config={}\n", "    args:\n    - --config\n    - {}\n"])
def test_a_removal_removes_all_words_of_the_flag(command: str) -> None:
    in_use = one(**WANTED)
    flag = f"    - --config={in_use['file']}\n"
    written = in_use["manifest"].replace(flag, command.format(in_use["file"]))
    assert flag in in_use["manifest"] and written != in_use["manifest"]
    removed = yaml.safe_load(one(written)["manifest"])
    for container in removed["spec"]["containers"]:
        container.pop("args", None)
    assert removed == yaml.safe_load(MANIFEST) and one(written)["profiles"] == []


def test_a_second_file_of_the_same_pod_is_refused() -> None:
    others = {
        "/m/a.yaml": "metadata: {name: kube-scheduler, namespace: kube-system}\n",
        "/m/b": '{"metadata": {"namespace": "kube-system", "name": "kube-scheduler"}}',
        "/m/c.yaml": "metadata:\n  name: own\n  namespace: kube-system\n  labels:\n    name: kube-scheduler\n",
        "/m/d.yaml": "metadata:\n  name: kube-scheduler\n  namespace: own\n",
        "/m/e.yaml": "metadata: [kube-scheduler",
    }
    assert planned({"cp-1": {"manifest": MANIFEST, "others": others}})["errors"] == [
        f"cp-1: {file} also defines Pod kube-system/kube-scheduler, and the kubelet runs only one: move it to another folder"
        for file in ("/m/a.yaml", "/m/b")
    ]


def objects(*pods_on: str, leader: str = "") -> list[Json]:
    """Return two control planes, pods with the label of kube-scheduler on these Nodes, and the Lease."""
    nodes = [{"kind": "Node", "metadata": {"name": name}} for name in ("node-1", "node-2")]
    lease = {"kind": "Lease", "metadata": {"name": "kube-scheduler"}, "spec": {"holderIdentity": leader}}
    kubeadm = {"kind": "ConfigMap", "metadata": {"name": "kubeadm-config", "resourceVersion": "12"}}
    return [kubeadm, *nodes, *({"kind": "Pod", "metadata": {"name": node}, "spec": {"nodeName": node}} for node in pods_on), lease]


def test_a_control_plane_that_is_no_host_is_refused_and_a_pod_of_another_node_proves_nothing() -> None:
    hosts = {"cp-1": {"manifest": MANIFEST, "node": "node-1"}}
    given: Json = {"git_version": "v1.36.3", "cluster": V1BETA4}
    forged = planned(hosts, objects=objects("node-1", "worker-1"), **given, **WANTED)
    assert forged["errors"] == []
    other = planned(hosts, objects=objects("node-1", "node-2"), **given, **WANTED)
    assert [error.partition(",")[0] for error in other["errors"]] == ["kube-scheduler also runs on node-2"]
    removal = planned(hosts, objects=objects("node-1", "node-2"), **given)
    assert removal["errors"] == [] and "kube-scheduler also runs on node-2" in removal["warnings"][0]


def test_the_configuration_of_kubeadm_is_written_only_if_it_differs_and_nobody_has_changed_it() -> None:
    hosts = {"cp-1": {"manifest": MANIFEST, "node": "node-1"}}
    found = planned(hosts, V1BETA4, objects=objects("node-1"), **WANTED)
    assert found["configuration"]["metadata"] == {"name": "kubeadm-config", "namespace": "kube-system", "resourceVersion": "12"}
    assert found["configuration"]["data"] == {"ClusterConfiguration": found["cluster"]}
    assert planned(hosts, found["cluster"], objects=objects("node-1"), **WANTED)["configuration"] == {}


def test_the_host_of_the_leader_is_the_last_one() -> None:
    hosts = {host: {"manifest": MANIFEST, "node": f"node-{host[-1]}"} for host in ("cp-1", "cp-2", "cp-3")}
    assert planned(hosts, objects=objects(leader="node-1_x-y"))["order"] == ["cp-2", "cp-3", "cp-1"]
    assert planned(hosts)["order"] == ["cp-1", "cp-2", "cp-3"]


@pytest.mark.parametrize(
    ("git_version", "sentence"),
    [("v1.36.3+k3s1", "the cluster is k3s, which"), ("v1.36.3", "there is no ConfigMap kube-system/kubeadm-config")],
)
def test_a_cluster_that_kubeadm_has_not_made_is_refused(git_version: str, sentence: str) -> None:
    (error,) = planned({"cp-1": {"manifest": MANIFEST}}, git_version=git_version, **WANTED)["errors"]
    assert error.startswith(sentence)


def test_what_prevents_the_reading_of_a_host_is_an_error_and_the_others_are_planned() -> None:
    found = planned({"cp-1": {"problems": ["cp-1 cannot be reached: repair it"]}, "cp-2": {"manifest": MANIFEST, "problems": []}}, **WANTED)
    assert found["errors"] == ["cp-1 cannot be reached: repair it"] and list(found["hosts"]) == ["cp-2"]


@pytest.mark.parametrize(
    ("manifest", "sentence"),
    [
        ("a: [", "the manifest /m.yaml of cp-1: "),
        ("kind: Pod", "the manifest /m.yaml of cp-1 has no container with the command kube-scheduler; give the path"),
        (MANIFEST.replace("--kubeconfig", "--config"), "manifest /m.yaml of cp-1 has --config=/etc/kubernetes/scheduler.conf, whose"),
        (
            MANIFEST.replace("--kubeconfig=/etc/kubernetes/scheduler.conf", "--config=/etc/kubernetes/kubescheduler-config.yaml"),
            ": kube_scheduler_profiles: [{schedulerName: default-scheduler}, "
            "{schedulerName: network-traffic}], kube_scheduler_extenders: [{urlPrefix: 'http://127.0.0.1:5401/scheduler', ",
        ),
        (MANIFEST.replace("    - kube-scheduler\n", "    - /bin/sh\n    - -c\n"), "of cp-1: starts kube-scheduler by /bin/sh, which"),
        (MANIFEST.replace("--kubeconfig=/etc", "--kube-api-qps=a\n    - --x=/etc"), "/m.yaml of cp-1: --kube-api-qps: its value"),
    ],
)  # fmt: skip
def test_a_manifest_that_cannot_be_extended_is_refused_with_its_host(manifest: str, sentence: str) -> None:
    found = planned({"cp-1": {"manifest": manifest}, "cp-2": {"manifest": MANIFEST}}, **WANTED)
    assert any(sentence in error for error in found["errors"]), found["errors"]


def test_a_removal_with_another_folder_is_refused_with_the_folder_in_use() -> None:
    in_use = one(**WANTED)["manifest"].replace(FOLDER, "/etc/kubernetes/own/scheduler")
    found = planned({"cp-1": {"manifest": in_use}})
    (error,) = found["errors"]
    assert error.endswith(
        "uses the folder /etc/kubernetes/own/scheduler, and not " + FOLDER + "; set extended_scheduler_folder to /etc/kubernetes/own"
    )


def test_a_wrong_profile_is_refused_with_its_field() -> None:
    found = planned({"cp-1": {"manifest": MANIFEST}}, profiles=[{"schedulerName": "a", "percentageOfNodesToScore": 101}])
    assert any("percentageOfNodesToScore" in error and error.startswith("the manifest /m.yaml of cp-1: ") for error in found["errors"])


@pytest.mark.parametrize("text", [V1BETA4, V1BETA3])
def test_kubeadm_keeps_the_file_and_a_removal_restores_each_byte(text: str) -> None:
    found = planned({"cp-1": {"manifest": MANIFEST}}, text, **WANTED)
    scheduler, file = yaml.safe_load(found["cluster"])["scheduler"], found["file"]
    assert scheduler["extraArgs"] == ([{"name": "config", "value": file}] if text is V1BETA4 else {"config": file})
    assert scheduler["extraVolumes"] == [
        {"name": "extended-scheduler", "hostPath": FOLDER, "mountPath": FOLDER, "readOnly": True, "pathType": "Directory"}
    ]
    assert planned({}, found["cluster"])["cluster"] == text
    assert planned({"cp-1": {"manifest": MANIFEST}}, found["cluster"], **WANTED)["cluster"] == found["cluster"]
    other = planned({"cp-1": {"manifest": MANIFEST}}, found["cluster"], profiles=[{"schedulerName": "quiet"}])
    assert other["file"] in other["cluster"] and file not in other["cluster"]


@pytest.mark.parametrize(
    "own",
    [
        "  extraArgs:\n  - name: v\n    value: '2'\n  extraVolumes:\n  - hostPath: /a\n    mountPath: /a\n    name: zone\n",
        "  extraEnvs:\n  - name: A\n    value: b\n",
    ],
)
def test_other_arguments_and_volumes_of_kubeadm_stay(own: str) -> None:
    text = V1BETA4.replace("scheduler: {}\n", "scheduler:\n" + own)
    found = planned({"cp-1": {"manifest": MANIFEST}}, text, **WANTED)
    assert own.splitlines()[1] in found["cluster"] and found["file"] in found["cluster"]
    assert planned({}, found["cluster"])["cluster"] == text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("kind: X", "the ConfigMap kube-system/kubeadm-config has the kind X, and ClusterConfiguration is expected"),
        (V1BETA4.replace("v1beta4", "v1beta9"), "has the apiVersion kubeadm.k8s.io/v1beta9, and kubeadm.k8s.io/v1beta4 and"),
        (V1BETA4.replace("scheduler: {}", "scheduler: {extraArgs: {a: b}}"), "has scheduler.extraArgs that do not have"),
        (V1BETA3.replace("scheduler: {}", "scheduler: {extraArgs: {config: /a}}"), "has config /a in scheduler.extraArgs, whose settings"),
    ],
)
def test_a_configuration_of_kubeadm_that_cannot_be_extended_is_refused(text: str, sentence: str) -> None:
    found = planned({"cp-1": {"manifest": MANIFEST}}, text, **WANTED)
    assert any(sentence in error for error in found["errors"]), found["errors"]
