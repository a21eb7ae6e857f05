# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The new texts for the kube-schedulers of a cluster that kubeadm has made, computed on the controller without any access.

Each control-plane host has a manifest of a static pod and a configuration file. The name of the file has a hash of the configurations of
all hosts, so an earlier manifest still finds its own file, and all hosts have the same command.
"""

from __future__ import annotations

import copy
import hashlib
import re
import typing as t

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.go_yaml import YamlTextError, compose
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.kubeadm_cluster import (
    cluster_with_configuration,
    cluster_without_configuration,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.manifest_flags import flags_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.problem import SchedulerConfigError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.static_pod import (
    PROGRAM,
    configuration_in,
    pod_with_configuration,
    pod_without_configuration,
    scheduler_container,
    words_of,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.validation import CLUSTER_LEASE, DEFAULT_SCHEDULER
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.profile_plan import plan_profile, read_config
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.yaml_editing import edit, same_value
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.yaml_rendering import render_flow

START = """# Written by the role onprem.kube_scheduling.extended_scheduler. A change gets a file with another name.
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""
"""The configuration before the first profile. kube-scheduler then has the profile default-scheduler, which the plan writes out."""
KUBESPRAY_FILE = "/etc/kubernetes/kubescheduler-config.yaml"
EVERY_ADDRESS = ("", "0.0.0.0", "::")
SECURE_PORT = "10259"
GAP = (
    "The cluster has one control plane. No pod is scheduled while kube-scheduler restarts, which takes about 15 s. Running pods are not "
    "affected."
)


class HostTexts(t.NamedTuple):
    """The texts of one host. An empty text means that there is no file.

    ``manifest`` is the one in use. ``original`` is the one before the first change, and ``previous`` the last one with which the scheduler
    was healthy. There is a previous one only after an interruption. ``config`` is the configuration of ``manifest`` if it is in the folder.
    """

    manifest: str
    original: str = ""
    previous: str = ""
    config: str = ""


class SchedulerWish(t.NamedTuple):
    """The configuration that is wanted. Without profiles, the changes of earlier runs are removed."""

    folder: str
    manifest_path: str
    kubernetes_version: str
    profiles: t.Sequence = ()
    extenders: t.Sequence = ()
    known_plugins: t.Sequence = ()


class Cluster(t.NamedTuple):
    """The cluster: the version of its API server, and its objects.

    These are the ConfigMap of kubeadm, the pods with the label of kube-scheduler, the control-plane Nodes and the Lease of kube-scheduler.

    A kubelet can make a mirror pod with any label on its own Node. It cannot give its Node the label of a control plane.
    """

    git_version: str = ""
    objects: t.Sequence = ()

    def configuration(self, text):
        """Return the ConfigMap of kubeadm with this text. A write is valid only for the version that was read."""
        versions = [one["metadata"].get("resourceVersion") for one in self.objects if one["kind"] == "ConfigMap"]
        metadata = {"name": "kubeadm-config", "namespace": CLUSTER_LEASE[0], "resourceVersion": versions[0] if versions else None}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ClusterConfiguration": text}}

    def scheduler_nodes(self):
        """Return the names of the control planes that run kube-scheduler."""
        names = {one["metadata"]["name"] for one in self.objects if one["kind"] == "Node"}
        return sorted(names & {one["spec"].get("nodeName") for one in self.objects if one["kind"] == "Pod"})

    def leader(self):
        """Return the name of the Node of the leader. The holder is this name, an underscore and a random part."""
        holders = [(one.get("spec") or {}).get("holderIdentity") or "" for one in self.objects if one["kind"] == "Lease"]
        return "".join(holders).partition("_")[0]


def plan_schedulers(hosts, cluster, wish, found_cluster):
    """Return the plan for what was read of each host, and for the text of the ClusterConfiguration, as plain values.

    It has errors or texts. ``missing`` has a sentence for each difference from the wish.
    """
    found, errors, warnings = {}, [problem for read in hosts.values() for problem in read.get("problems", ())], []
    read_hosts = {host: read for host, read in hosts.items() if read.get("manifest")}
    all_texts = {host: HostTexts(*(read.get(name, "") for name in HostTexts._fields)) for host, read in read_hosts.items()}
    for host, texts in all_texts.items():
        place = f"the manifest {wish.manifest_path} of {host}"
        try:
            restored = _restored(texts, wish)
            if wish.profiles:
                # It refuses a manifest with another file.
                pod_with_configuration(restored["pod"], f"{wish.folder}/config.yaml")
                restored["config"], more = _configuration(restored["pod"], wish, place)
                warnings += more
            found[host] = restored
        except (SchedulerConfigError, YamlTextError) as error:
            errors += _with_place(place, error)
        errors += _second_pods(host, read_hosts[host].get("others", {}))
    file = _file_for([one["config"] for one in found.values()], wish)
    planned = {host: _host_plan(all_texts[host], found[host], file, wish) for host in found}
    cluster_text = ""
    if cluster:
        try:
            cluster_text = edit_cluster(cluster, wish.folder, file)
        except (SchedulerConfigError, YamlTextError) as error:
            errors += _with_place("the ConfigMap kube-system/kubeadm-config", error)
    nodes = {host: read.get("node", "") for host, read in read_hosts.items()}
    if found_cluster.git_version:
        errors += _cluster_errors(cluster, found_cluster)
        others = [node for node in found_cluster.scheduler_nodes() if node not in nodes.values()]
        if others and not errors:
            (errors if wish.profiles else warnings).append(
                f"kube-scheduler also runs on {', '.join(others)}, which is none of the hosts: add all control-plane hosts to the group "
                "kube_control_plane or to extended_scheduler_hosts"
            )
        if len(hosts) == 1 and any(plan["differs"] for plan in planned.values()):
            warnings.append(GAP)
    # The profile default-scheduler is never removed.
    kept = {DEFAULT_SCHEDULER, *(profile.get("schedulerName") for profile in wish.profiles)}
    installed = dict.fromkeys(profile for plan in planned.values() for profile in plan["profiles"])
    return {
        "file": file,
        "hosts": planned,
        "nodes": nodes,
        # The leadership then moves only once.
        "order": sorted(planned, key=lambda host: nodes[host] == found_cluster.leader()),
        "cluster": cluster_text,
        "configuration": found_cluster.configuration(cluster_text) if cluster_text != cluster else {},
        "dropped": [profile for profile in installed if profile not in kept],
        "missing": [*(line for host, plan in planned.items() for line in _missing(host, plan)), *_missing_of(cluster, cluster_text)],
        "errors": errors,
        "warnings": list(dict.fromkeys(warnings)),
    }


def _second_pods(host, others):
    """Yield an error for each other manifest that defines the pod of the scheduler. ``others`` has the metadata by file."""
    for file, text in others.items():
        try:
            metadata = compose(text)[1]["metadata"]
            same = (metadata.get("name"), metadata.get("namespace")) == (PROGRAM, CLUSTER_LEASE[0])
        except (AttributeError, KeyError, TypeError, YamlTextError):
            continue  # the kubelet refuses it, too
        if same:
            yield f"{host}: {file} also defines Pod {CLUSTER_LEASE[0]}/{PROGRAM}, and the kubelet runs only one: move it to another folder"


def _cluster_errors(cluster, found):
    program = re.search("k3s|rke2", found.git_version, re.IGNORECASE)
    if program:
        name = program.group().lower()
        yield (
            f"the cluster is {name}, which has no manifest of kubeadm: set extended_scheduler_shape: second_scheduler, or "
            f"kube-scheduler-arg: config=FILE in the configuration of {name} on its servers"
        )
    elif not cluster:
        yield (
            "there is no ConfigMap kube-system/kubeadm-config, so kubeadm has not made the cluster: set extended_scheduler_shape: "
            "second_scheduler, or on Talos cluster.scheduler.config of the machine configuration, which has the KubeSchedulerConfiguration"
        )


def _missing(host, plan):
    """Yield a sentence for each difference of a host from its plan."""
    run = "run the playbook onprem.kube_scheduling.site or onprem.kube_scheduling.scheduler"
    if plan["lacks_config"]:
        yield f"{host}: the configuration that its manifest names does not exist, as after kubeadm join: {run}, which writes it"
    elif plan["is_edited"]:
        yield f"{host}: {plan['file']} was edited by hand: {run}, which writes it again"
    if plan["differs"]:
        yield f"{host}: kube-scheduler does not have the profiles of the variables: {run}"
    if plan["is_interrupted"]:
        yield f"{host}: a change of kube-scheduler was interrupted: {run}, which continues it"


def _missing_of(before, wanted):
    if wanted != before:
        yield (
            "ConfigMap kube-system/kubeadm-config does not have these profiles, so the next kubeadm upgrade would remove them: run the "
            "playbook onprem.kube_scheduling.site or onprem.kube_scheduling.scheduler"
        )


def edit_cluster(text, folder, file):
    """Return the text of a ClusterConfiguration with the file, or without any file of the folder if ``file`` is empty."""
    value = compose(text)[1]
    wanted = cluster_with_configuration(value, file) if file else cluster_without_configuration(value, folder)
    return edit(text, wanted).text


def _restored(texts, wish):
    """Return the manifest without the changes of this collection, as text and value."""
    pod = compose(texts.manifest)[1]
    file = flags_of(words_of(scheduler_container(pod))).get("config", "")
    if file == KUBESPRAY_FILE and wish.profiles:
        profiles = [{"schedulerName": DEFAULT_SCHEDULER}, *(one for one in wish.profiles if one.get("schedulerName") != DEFAULT_SCHEDULER)]
        raise SchedulerConfigError(
            f"has --config={file}, which kubespray writes; use extended_scheduler_shape: second_scheduler, or run an extender on each "
            f"control-plane host, and set these variables of kubespray: kube_scheduler_profiles: {render_flow(profiles)}, "
            f"kube_scheduler_extenders: {render_flow(list(wish.extenders))}"
        )
    restored = pod_without_configuration(pod, wish.folder)
    original = texts.original if texts.original and same_value(compose(texts.original)[1], restored) else ""
    return {"pod": restored, "text": original or edit(texts.manifest, restored).text, "config": ""}


def _configuration(pod, wish, place):
    """Return the text of the configuration for the flags of a pod, and warnings."""
    text, warnings = START, []
    command = words_of(scheduler_container(pod))
    for number, profile in enumerate(wish.profiles):
        options = {
            "name": profile.get("schedulerName"),
            "plugins": profile.get("plugins"),
            "plugin_config": profile.get("pluginConfig"),
            "percentage_of_nodes_to_score": profile.get("percentageOfNodesToScore"),
            "extenders": None if number else wish.extenders,
            "leader_election": None,
            "client_connection": None,
            "kubernetes_version": wish.kubernetes_version,
            "api_version": None,
            "known_plugins": wish.known_plugins,
            "state": "present",
            "force": False,
        }
        plan = plan_profile(text, options, place, command)
        text, warnings = plan.after, plan.warnings
    return text, warnings


def _file_for(configs, wish):
    if not wish.profiles:
        return ""
    content = "\n".join(sorted(set(configs)))
    return f"{wish.folder}/{hashlib.sha256(content.encode()).hexdigest()[:12]}.yaml"


def _host_plan(texts, restored, file, wish):
    """Return the texts of one host, and what is needed to check its scheduler."""
    wanted = restored["text"]
    if file:
        with_file = pod_with_configuration(restored["pod"], file)
        wanted = texts.manifest if _is_same_pod(compose(texts.manifest)[1], with_file) else edit(texts.manifest, with_file).text
    words = _words(wanted)
    flags = flags_of(words)
    used = configuration_in(scheduler_container(compose(texts.manifest)[1]), wish.folder)
    is_edited = bool(used) and used == file and texts.config != restored["config"]
    return {
        "file": file,
        "config": restored["config"],
        "manifest": wanted,
        "original": restored["text"],
        "read": texts.manifest,
        "differs": wanted != texts.manifest,
        # The kubelet does not start this scheduler. A control plane that joins gets its manifest from the ClusterConfiguration.
        "lacks_config": bool(used) and not texts.config,
        "is_edited": is_edited,
        "changes": wanted != texts.manifest or is_edited or bool(texts.previous),
        "words": words,
        # A rollback returns to the last manifest with which the scheduler was healthy.
        "previous": texts.previous or texts.manifest,
        "previous_words": _words(texts.previous or texts.manifest),
        "running_words": _words(texts.manifest),
        "is_interrupted": bool(texts.previous),
        "health_url": _health_url(flags),
        "elects": flags.get("leader-elect", "true") != "false",
        "lease": {
            "namespace": flags.get("leader-elect-resource-namespace", CLUSTER_LEASE[0]),
            "name": flags.get("leader-elect-resource-name", CLUSTER_LEASE[1]),
        },
        "profiles": _profiles(texts.config),
    }


def _is_same_pod(one, other):
    """Return whether two pods differ at most in the order of flags. Another version of kubeadm may write another order."""
    one, other = copy.deepcopy(one), copy.deepcopy(other)
    for container in (scheduler_container(one), scheduler_container(other)):
        for name in ("command", "args"):
            if container.get(name):
                container[name] = sorted(container[name], key=str)
    return same_value(one, other)


def _words(manifest):
    return words_of(scheduler_container(compose(manifest)[1]))


def _health_url(flags):
    address = flags.get("bind-address", "")
    address = "127.0.0.1" if address in EVERY_ADDRESS else address
    return f"https://{f'[{address}]' if ':' in address else address}:{flags.get('secure-port', SECURE_PORT)}/healthz"


def _profiles(config):
    """Return the names of the profiles in a configuration. A file that cannot be read has none."""
    try:
        profiles = (read_config(config or None, "") or {}).get("profiles")
    except SchedulerConfigError:
        return []
    return [profile["schedulerName"] for profile in profiles or [] if isinstance(profile, dict) and "schedulerName" in profile]


def _with_place(place, error):
    # An error of the configuration names its fields, one line for each.
    lines = str(error).removeprefix(f"{place}: ").splitlines()
    return [f"{place} {line}" if line.startswith("has ") else f"{place}: {line}" for line in lines]
