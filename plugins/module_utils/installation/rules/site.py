# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rules of the playbooks site, scheduler, verify and uninstall. Each yields a sentence for each mistake.

The playbooks name a rule by its function. Its variables are in playbooks/vars/site.yml, or facts of earlier tasks.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator, Mapping

Variables = Mapping[str, t.Any]
NAMES = {"ansible_core": "ansible-core", "kubernetes_core": "kubernetes.core", "kubernetes": "Kubernetes"}
REMOVALS = ("spread_cronjob_state", "critical_rescuer_enabled", "critical_rescuer_state", "extended_scheduler_state")
TAGS = {"preflight", "node_exporter", "service_image", "spread_cronjob", "critical_rescuer", "extended_scheduler"}
REMOVES = ("absent", "true", "yes", "on", "y", "t", "1", "1.0")
"""The values of these variables with which the roles remove the programs."""


def site_tags(variables: Variables) -> Iterator[str]:
    """Refuse to skip a tag that the checks before the installation have, too."""
    skipped = sorted(TAGS.intersection(variables["ansible_skip_tags"]))
    if skipped:
        yield (
            f"--skip-tags {','.join(skipped)} would skip the checks before the installation, too. Choose the parts with --tags, or set"
            " site_spread_cronjob, site_critical_rescuer, site_scheduler or site_node_exporter to false."
        )


def site_groups(variables: Variables) -> Iterator[str]:
    """Refuse groups without hosts, whose plays would only be skipped, and a ``site_serial`` that is no number of nodes."""
    for group in variables["__site_groups"] or []:
        if not group["hosts"]:
            yield f"{group['name']} is {group['pattern']}, and no host matches it: {group['remedy']}"
    serial = variables["__site_serial"]
    for size in serial if isinstance(serial, list) else [serial]:
        if not re.match("[0-9]+%?$", str(size)):
            yield f"site_serial has {size}: it must be a number of nodes, or a percentage such as 20%"


def site_limit(variables: Variables) -> Iterator[str]:
    """Refuse a limit without a host that reaches the API server. The plays would have no host, and the run would not fail."""
    limit, hosts = variables["ansible_limit"], variables["__site_cluster_hosts"]
    if limit is not None and not set(variables["__site_limited"]) & set(variables["__site_clusters"]):
        yield f"--limit {limit} leaves out {hosts}, where the tasks for the API server run: remove --limit, or add this host to it"


def site_clusters(variables: Variables) -> Iterator[str]:
    """Refuse what several clusters cannot have in one run: images that differ, and hosts that are not named for each of them."""
    clusters = variables["__site_clusters"] or []
    if len(clusters) < 2:
        return
    listed, hosts = ", ".join(clusters), [variables["hostvars"][name] for name in clusters]
    once = "run the playbook once for each cluster, with -e site_cluster_hosts=HOST"
    names = {name for host in hosts for name in host if name.startswith("service_image_")}
    for name in sorted(names - {"service_image_result", "service_image_pull_secrets"}):
        if any(host.get(name, "") != hosts[0].get(name, "") for host in hosts):
            yield f"{name} is not the same for {listed}: {once}"
    uses = {}
    if variables["__site_has_static_rescuer"]:
        uses["critical_rescuer_static_hosts"] = "critical_rescuer_form is static_pod"
    if variables["__site_has_scheduler"] and variables["__site_scheduler_uses_hosts"]:
        uses["extended_scheduler_hosts"] = f"extended_scheduler_shape is {variables['__site_scheduler_shape']}"
    for name, text in uses.items():
        if not variables[name]:
            remedy = f"set it for each of them to the hosts of its cluster, or {once}"
            yield f"{text} for several clusters ({listed}), and {name} is empty: {remedy}"


def site_render(variables: Variables) -> Iterator[str]:
    """Refuse that a role writes files in place of changes. ``__site_changes``: the roles with which the playbook changes the cluster."""
    for role in variables["__site_changes"] or []:
        if variables[f"{role}_render_to"]:
            yield (
                f"{role}_render_to is set, so the role would write files and not change the cluster: remove it, and render the files in a"
                " playbook of your own"
            )


def site_cluster(variables: Variables) -> Iterator[str]:
    """Refuse versions that are too old, and clocks that differ. A cluster that has not answered has neither."""
    cluster = variables["__site_cluster"] or {}
    versions = {"ansible_core": variables["ansible_version"]["full"], "kubernetes_core": cluster.get("kubernetes_core", "")}
    versions["kubernetes"] = cluster.get("version", "").lstrip("v")
    for name, minimum in variables["__site_minimum_versions"].items():
        if versions[name] and _numbers(versions[name]) < _numbers(minimum):
            yield f"{NAMES[name]} is {versions[name]}: update it to {minimum} or later"
    skew = cluster.get("clock_skew_s", 0)
    if abs(skew) > int(variables["__site_max_clock_skew_s"]):
        where = f"{abs(skew)} s {'ahead of' if skew > 0 else 'behind'} the clock of the API server"
        yield f"the clock of the controller is {where}: synchronise both, or raise site_max_clock_skew"


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall("[0-9]+", version)[:3]]


def site_failed(variables: Variables) -> Iterator[str]:
    """List the failed checks of all hosts. Without one host of a group that can be reached, a part would not be installed at all."""
    checked, reached = variables["ansible_play_hosts_all"], set(variables["ansible_play_hosts"])
    found = [text for host in checked for text in variables["hostvars"][host].get("__site_failed") or []]
    for group in variables["__site_groups"]:
        listed = sorted(set(checked).intersection(group["hosts"]))
        if listed and not reached.intersection(listed):
            found.append(f"no host of {group['name']} can be reached ({', '.join(listed)}): see the error of each one above")
    if found:
        yield from ("Nothing was changed. Failed checks:", *dict.fromkeys(found))


def site_nodes(variables: Variables) -> Iterator[str]:
    """Name the nodes that did not get a part of this run. They take no part in later plays, so their errors may be far above."""
    nodes = [host for host in variables["ansible_play_hosts_all"] if host in variables["__site_nodes"]]
    parts, again = variables["__site_node_parts"], "See the error of each node above, and run the playbook again."
    lost = ", ".join(host for host in nodes if host not in variables["__site_exporters"])
    if lost and "node_exporter" in parts:
        yield f"node_exporter was not installed on {lost}. {again}"
    lost = ", ".join(host for host in nodes if host not in variables["__site_delivered"])
    if lost and "service_image" in parts:
        yield f"The image was not delivered to {lost}. {again} {'; '.join(variables['__site_lost_texts'])}".strip()


def verify_hosts(variables: Variables) -> list[str]:
    """Name what is missing in the cluster and on hosts, which earlier tasks have found, and the hosts that were not verified."""
    found = list(variables["__site_failed"] or ())
    if variables["__site_delivery"] == "archive" and not variables["__site_nodes"]:
        found.append(
            f"site_node_hosts is {variables['__site_node_hosts']}, and no host matches it, so the image is not verified: give an inventory"
            " that has the nodes in these groups (-i), or set service_image_delivery as for the playbook onprem.kube_scheduling.site"
        )
    for host in variables["__site_verified_hosts"]:
        known = variables["hostvars"][host]
        if error := known.get("__site_delivery_error"):
            found.append(f"{host} did not get the image: {error}")
        elif not (known.get("__site_ping") or {}).get("ping"):
            remedy = "see the error of this host, and run the playbook again"
            found.append(f"{host} has failed or could not be reached, so it was not verified: {remedy}")
        found += [text if host in text else f"{host}: {text}" for text in known.get("__site_failed") or ()]
    return list(dict.fromkeys(" ".join(text.split()) for text in found))


def uninstall(variables: Variables) -> Iterator[str]:
    """Refuse variables of ``-e`` that would keep a program, and a scheduler of hosts that no variable names."""
    for name in REMOVALS:
        if str(variables[name]).lower() not in REMOVES:
            yield f"{name} is {variables[name]}: remove it, because this playbook removes the program"
    if "kube-scheduling-extender" in (variables["__site_found_marks"] or ()) and not variables["__site_scheduler_uses_hosts"]:
        yield (
            "the schedulers of the cluster have profiles of the role, or hosts run the scheduler: set extended_scheduler_shape: kubeadm, or"
            " systemd and extended_scheduler_hosts, and give an inventory with all these hosts"
        )


def uninstall_image(variables: Variables) -> Iterator[str]:
    """Name the nodes that may still have the image."""
    archive = "if an archive was delivered"
    for node in variables["__site_nodes"]:
        if node not in variables["__site_limited"]:
            yield f"The image on {node}, {archive}, because of --limit."
        elif error := variables["hostvars"][node].get("__site_image_error"):
            yield f"The image on {node}, {archive}: {' '.join(error.split())}"
    if not variables["__site_nodes"]:
        remedy = f"no host matches site_node_hosts ({variables['__site_node_hosts']}): give an inventory that has the nodes (-i)"
        yield f"The image on the nodes, {archive}, because {remedy}, and run this again."
