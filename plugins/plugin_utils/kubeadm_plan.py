# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The new texts for the kube-schedulers of a cluster that kubeadm has made, computed on the controller without any access.

Each control-plane host has a manifest of a static pod and a configuration file. The name of the file has a hash of the configurations of
all hosts, so an earlier manifest still finds its own file, and all hosts have the same command.
"""

from __future__ import annotations

import copy
import hashlib
import typing as t

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.go_yaml import YamlTextError, compose
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.kubeadm_cluster import (
    cluster_with_configuration,
    cluster_without_configuration,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.manifest_flags import flags_of
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.problem import SchedulerConfigError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.static_pod import (
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


def plan_schedulers(hosts, cluster, wish):
    """Return the plan for the texts of each host and the text of the ClusterConfiguration. It has errors or texts, as plain values."""
    found, errors, warnings = {}, [], []
    for host, texts in hosts.items():
        place = f"the manifest {wish.manifest_path} of {host}"
        try:
            restored = _restored(HostTexts(**texts), wish)
            if wish.profiles:
                # It refuses a manifest with another file.
                pod_with_configuration(restored["pod"], f"{wish.folder}/config.yaml")
                restored["config"], more = _configuration(restored["pod"], wish, place)
                warnings += more
            found[host] = restored
        except (SchedulerConfigError, YamlTextError) as error:
            errors += _with_place(place, error)
    file = _file_for([one["config"] for one in found.values()], wish)
    planned = {host: _host_plan(HostTexts(**hosts[host]), found[host], file) for host in found}
    cluster_text = ""
    if cluster:
        try:
            cluster_text = edit_cluster(cluster, wish.folder, file)
        except (SchedulerConfigError, YamlTextError) as error:
            errors += _with_place("the ConfigMap kube-system/kubeadm-config", error)
    return {"file": file, "hosts": planned, "cluster": cluster_text, "errors": errors, "warnings": list(dict.fromkeys(warnings))}


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


def _host_plan(texts, restored, file):
    """Return the texts of one host, and what is needed to check its scheduler."""
    wanted = restored["text"]
    if file:
        with_file = pod_with_configuration(restored["pod"], file)
        wanted = texts.manifest if _is_same_pod(compose(texts.manifest)[1], with_file) else edit(texts.manifest, with_file).text
    container = scheduler_container(compose(wanted)[1])
    words = words_of(container)
    flags = flags_of(words)
    return {
        "config": restored["config"],
        "manifest": wanted,
        "original": restored["text"],
        "differs": wanted != texts.manifest,
        "words": words,
        "container": container.get("name", ""),
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
