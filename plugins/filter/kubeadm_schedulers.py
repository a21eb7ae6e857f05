# Copyright: onprem.kube_scheduling contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: kubeadm_schedulers
short_description: Return the files for the schedulers of a cluster that kubeadm has made
version_added: 1.0.0
author:
  - onprem.kube_scheduling contributors (@onprem)
description:
  - Makes the KubeSchedulerConfiguration and the manifest of each control-plane host, and the ClusterConfiguration of kubeadm, from the
    present ones. The role P(onprem.kube_scheduling.extended_scheduler#role) writes them.
  - Everything else in the texts stays as it is, byte by byte.
options:
  _input:
    description: >-
      What M(onprem.kube_scheduling.kubeadm_scheduler_host) has read of each host, by the name of the host.
    type: dict
    required: true
  cluster:
    description: The text of the ClusterConfiguration in the ConfigMap C(kube-system/kubeadm-config).
    type: str
    default: ""
  folder:
    description: The folder of the configuration files on the hosts.
    type: str
    required: true
  manifest_path:
    description: The path of the manifest, for messages.
    type: str
    required: true
  kubernetes_version:
    description: The version of kube-scheduler, such as V(1.36.3).
    type: str
    required: true
  profiles:
    description: The profiles that are wanted. Without one, the changes of earlier runs are removed from the texts.
    type: list
    elements: dict
    default: []
  extenders:
    description: The extenders that are wanted, with their C(urlPrefix).
    type: list
    elements: dict
    default: []
  known_plugins:
    description: The names of plugins that are compiled into this kube-scheduler and are not in Kubernetes.
    type: list
    elements: str
    default: []
  git_version:
    description: The version of the API server, such as V(v1.36.3+k3s1). Without it, the cluster is not checked.
    type: str
    default: ""
  objects:
    description: >-
      The ConfigMap C(kube-system/kubeadm-config), the pods with the label C(component=kube-scheduler), the control-plane Nodes, and the
      Lease of kube-scheduler.
    type: list
    elements: dict
    default: []
"""

EXAMPLES = r"""
- name: Show the manifests without the changes of the role
  ansible.builtin.debug:
    msg: "{{ (hosts | onprem.kube_scheduling.kubeadm_schedulers(**options)).hosts['cp-1'].manifest }}"
  vars:
    hosts:
      cp-1:
        manifest: "{{ lookup('ansible.builtin.file', 'kube-scheduler.yaml') }}"
    options:
      folder: /etc/kubernetes/extended-scheduler/scheduler
      manifest_path: /etc/kubernetes/manifests/kube-scheduler.yaml
      kubernetes_version: 1.36.3
"""

RETURN = r"""
_value:
  description: >-
    C(file) is the path of the configuration file. C(hosts) has by host C(config), C(manifest), C(original), whether the new manifest
    C(differs), and the command lines. C(order) has the hosts with the leader at the end. C(cluster) is the text of the
    ClusterConfiguration, and C(configuration) the ConfigMap with it, if it differs. C(dropped) has the profiles that are not wanted any
    more. C(errors), C(warnings) and C(missing) are lists of sentences. With an error nothing may be written.
  type: dict
"""

import copy
import hashlib
import re
from types import SimpleNamespace

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
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.role_variables import plain
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
RUN = "run the playbook onprem.kube_scheduling.site or onprem.kube_scheduling.scheduler"
GAP = (
    "The cluster has one control plane. No pod is scheduled while kube-scheduler restarts, which takes about 15 s. Running pods are not "
    "affected."
)
MAP_DIFFERS = f"ConfigMap kube-system/kubeadm-config does not have these profiles, so the next kubeadm upgrade would remove them: {RUN}"


def kubeadm_schedulers(hosts, *, cluster="", git_version="", objects=(), **wish):
    """Return the plan for the schedulers of all control-plane hosts.

    The name of the file has a hash of the configurations of all hosts, so an earlier manifest still finds its own file, and all hosts have
    the same command.
    """
    hosts, cluster, objects = plain(hosts), plain(cluster), plain(objects)
    wish = SimpleNamespace(**{"profiles": [], "extenders": [], "known_plugins": [], **plain(wish)})
    objects = {kind: [one for one in objects if one["kind"] == kind] for kind in ("ConfigMap", "Pod", "Node", "Lease")}
    found, warnings, errors = {}, [], [problem for read in hosts.values() for problem in read.get("problems", ())]
    texts = {"original": "", "previous": "", "config": "", "node": "", "others": {}}
    reads = {host: {**texts, **read} for host, read in hosts.items() if read.get("manifest")}
    for host, read in reads.items():
        place = f"the manifest {wish.manifest_path} of {host}"
        try:
            restored = _restored(read, wish)
            if wish.profiles:
                # It refuses a manifest with another file.
                pod_with_configuration(restored["pod"], f"{wish.folder}/config.yaml")
                restored["config"], more = _configuration(restored["pod"], wish, place)
                warnings += more
            found[host] = restored
        except (SchedulerConfigError, YamlTextError) as error:
            errors += _with_place(place, error)
        errors += _second_pods(host, read["others"])
    configs = "\n".join(sorted({one["config"] for one in found.values()}))
    file = f"{wish.folder}/{hashlib.sha256(configs.encode()).hexdigest()[:12]}.yaml" if wish.profiles else ""
    planned = {host: _host_plan(reads[host], restored, file, wish) for host, restored in found.items()}
    cluster_text = ""
    if cluster:
        try:
            value = compose(cluster)[1]
            wanted = cluster_with_configuration(value, file) if file else cluster_without_configuration(value, wish.folder)
            cluster_text = edit(cluster, wanted).text
        except (SchedulerConfigError, YamlTextError) as error:
            errors += _with_place("the ConfigMap kube-system/kubeadm-config", error)
    if git_version:
        errors += _cluster_errors(cluster, str(git_version))
        # A kubelet can make a mirror pod with any label on its own Node. It cannot give its Node the label of a control plane.
        with_pods = {one["metadata"]["name"] for one in objects["Node"]} & {one["spec"].get("nodeName") for one in objects["Pod"]}
        others = sorted(with_pods - {read["node"] for read in reads.values()})
        if others and not errors:
            (errors if wish.profiles else warnings).append(
                f"kube-scheduler also runs on {', '.join(others)}, which is none of the hosts: add all control-plane hosts to the group "
                "kube_control_plane or to extended_scheduler_hosts"
            )
        if len(hosts) == 1 and any(plan["differs"] for plan in planned.values()):
            warnings.append(GAP)
    # The holder is the name of the Node, an underscore and a random part.
    leader = "".join((one.get("spec") or {}).get("holderIdentity") or "" for one in objects["Lease"]).partition("_")[0]
    # A write is valid only for the version that was read.
    version = next((one["metadata"].get("resourceVersion") for one in objects["ConfigMap"]), None)
    metadata = {"name": "kubeadm-config", "namespace": CLUSTER_LEASE[0], "resourceVersion": version}
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"ClusterConfiguration": cluster_text}}
    # The profile default-scheduler is never removed.
    kept = {DEFAULT_SCHEDULER, *(profile.get("schedulerName") for profile in wish.profiles)}
    installed = dict.fromkeys(profile for plan in planned.values() for profile in plan["profiles"])
    missing = [line for host, plan in planned.items() for line in _missing(host, plan)]
    return {
        "file": file,
        "hosts": planned,
        # The leadership then moves only once.
        "order": sorted(planned, key=lambda host: planned[host]["node"] == leader),
        "cluster": cluster_text,
        "configuration": config_map if cluster_text != cluster else {},
        "dropped": [profile for profile in installed if profile not in kept],
        "missing": missing + ([MAP_DIFFERS] if cluster_text != cluster else []),
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


def _cluster_errors(cluster, git_version):
    """Yield an error for a cluster that kubeadm has not made."""
    program = re.search("k3s|rke2", git_version, re.IGNORECASE)
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
    if plan["lacks_config"]:
        yield f"{host}: the configuration that its manifest names does not exist, as after kubeadm join: {RUN}, which writes it"
    elif plan["is_edited"]:
        yield f"{host}: {plan['file']} was edited by hand: {RUN}, which writes it again"
    if plan["differs"]:
        yield f"{host}: kube-scheduler does not have the profiles of the variables: {RUN}"
    if plan["is_interrupted"]:
        yield f"{host}: a change of kube-scheduler was interrupted: {RUN}, which continues it"


def _restored(read, wish):
    """Return the manifest without the changes of this collection, as text and value."""
    pod = compose(read["manifest"])[1]
    file = flags_of(words_of(scheduler_container(pod))).get("config", "")
    if file == KUBESPRAY_FILE and wish.profiles:
        profiles = [{"schedulerName": DEFAULT_SCHEDULER}, *(one for one in wish.profiles if one.get("schedulerName") != DEFAULT_SCHEDULER)]
        raise SchedulerConfigError(
            f"has --config={file}, which kubespray writes; use extended_scheduler_shape: second_scheduler, or run an extender on each "
            f"control-plane host, and set these variables of kubespray: kube_scheduler_profiles: {render_flow(profiles)}, "
            f"kube_scheduler_extenders: {render_flow(list(wish.extenders))}"
        )
    restored = pod_without_configuration(pod, wish.folder)
    is_original = read["original"] and same_value(compose(read["original"])[1], restored)
    text = read["original"] if is_original else edit(read["manifest"], restored).text
    return {"pod": restored, "text": text, "config": ""}


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


def _host_plan(read, restored, file, wish):
    """Return the texts of one host, and what is needed to check its scheduler."""
    in_use, pod, wanted = read["manifest"], compose(read["manifest"])[1], restored["text"]
    if file:
        with_file = pod_with_configuration(restored["pod"], file)
        wanted = in_use if same_value(_with_sorted_flags(pod), _with_sorted_flags(with_file)) else edit(in_use, with_file).text
    # A rollback returns to the last manifest with which the scheduler was healthy. There is one only after an interruption.
    previous = read["previous"] or in_use
    flags = flags_of(_words(wanted))
    namespace, name = (f"leader-elect-resource-{part}" for part in ("namespace", "name"))
    lease = {"namespace": flags.get(namespace, CLUSTER_LEASE[0]), "name": flags.get(name, CLUSTER_LEASE[1])}
    used = configuration_in(scheduler_container(pod), wish.folder)
    is_edited = bool(used) and used == file and read["config"] != restored["config"]
    return {
        "node": read["node"],
        "file": file,
        "config": restored["config"],
        "manifest": wanted,
        "original": restored["text"],
        "read": in_use,
        "differs": wanted != in_use,
        # The kubelet does not start this scheduler. A control plane that joins gets its manifest from the ClusterConfiguration.
        "lacks_config": bool(used) and not read["config"],
        "is_edited": is_edited,
        "changes": wanted != in_use or is_edited or bool(read["previous"]),
        "words": _words(wanted),
        "previous": previous,
        "previous_words": _words(previous),
        "running_words": _words(in_use),
        "is_interrupted": bool(read["previous"]),
        "health_url": _health_url(flags),
        "lease": lease if flags.get("leader-elect", "true") != "false" else {},
        "profiles": _profiles(read["config"]),
    }


def _with_sorted_flags(pod):
    """Return a pod for a comparison. Another version of kubeadm may write the flags in another order."""
    pod = copy.deepcopy(pod)
    container = scheduler_container(pod)
    for name in ("command", "args"):
        if container.get(name):
            container[name] = sorted(container[name], key=str)
    return pod


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


class FilterModule:
    """The filter of this file."""

    def filters(self):
        """Return the filter by its name."""
        return {"kubeadm_schedulers": kubeadm_schedulers}
