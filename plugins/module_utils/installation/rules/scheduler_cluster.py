# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The obstacles that a cluster has for the variables of the role extended_scheduler."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping

MOST_SCRAPED, MOST_SHOWN = 200, 20
TWO_SCHEDULERS = (
    "The cluster has two schedulers then. They do not see each other's nominations, and may give the same free capacity to two pods at the "
    "same time. The kubelet rejects one of these pods, for example with OutOfcpu, and its controller creates another one."
)
Variables = Mapping[str, t.Any]


def mistakes(variables: Variables) -> Iterator[str]:
    """Yield a sentence for each obstacle. Those of hosts have been found before."""
    cluster, shape = variables["__extended_scheduler_cluster"], variables["extended_scheduler_shape"]
    is_present = variables["extended_scheduler_state"] == "present"
    yield from _other_shapes(cluster["marked"], shape, is_present=is_present)
    if is_present:
        yield from _unfit(variables, cluster)
    for item in cluster["missing_files"]:
        name = f"{item['kind']} {variables['__extended_scheduler_namespace']}/{item['name']}"
        if not item["exists"]:
            yield f"the settings name a file of {name}, which does not exist: create it with the key {item['key']}"
        else:
            yield f"the settings name the key {item['key']} of {name}, which it does not have: add the key, or correct the path of the file"
    users = (variables["__extended_scheduler_users"] or {}).get("users")
    if users and not _is_true(variables["__extended_scheduler_is_forced"]):
        shown = ", ".join(users[:MOST_SHOWN]) + (", …" if len(users) > MOST_SHOWN else "")
        yield (
            f"{', '.join(variables['__extended_scheduler_dropped'])} would be removed, and {len(users)} pods or workloads would wait for "
            f"it: {shown}: give them another schedulerName, or set extended_scheduler_force: true"
        )
    if shape != "second_scheduler":
        yield from variables["__extended_scheduler_all_errors"]


def remarks(variables: Variables) -> list[str]:
    """Return sentences about two schedulers, and about the change of one."""
    if variables["extended_scheduler_shape"] == "kubeadm":
        return list(variables["__extended_scheduler_plan"]["warnings"])
    return [TWO_SCHEDULERS] if variables["extended_scheduler_state"] == "present" else []


def _other_shapes(marked: list[dict[str, str]], shape: str, *, is_present: bool) -> Iterator[str]:
    shapes = [mark["shape"] for mark in marked]
    # The shape systemd has the mark of kubeadm, too.
    for mark in (mark for mark in marked if mark["shape"] not in (shape, "kubeadm" if "systemd" in shapes else "")):
        if is_present:
            yield (
                f"{mark['what']}, and two schedulers must not have the same profile: remove it first, with extended_scheduler_shape: "
                f"{mark['shape']}, extended_scheduler_state: absent and extended_scheduler_force: true. Its pods wait until this shape is "
                "installed"
            )
        elif shape not in shapes:
            yield f"{mark['what']}, and extended_scheduler_shape is {shape}: set it to {mark['shape']} to remove that"


def _unfit(variables: Variables, cluster: Mapping[str, t.Any]) -> Iterator[str]:
    if variables["extended_scheduler_namespaces"] and not _is_true(variables["__extended_scheduler_has_policies"]):
        yield (
            f"extended_scheduler_namespaces is set, and Kubernetes is {variables['__extended_scheduler_version']}: a "
            f"MutatingAdmissionPolicy needs {variables['__extended_scheduler_policy_version']} or later, so remove the variable, and set "
            "schedulerName in the workloads"
        )
    nodes, label = cluster["node_names"], variables["extended_scheduler_node_label"]
    if variables["extended_scheduler_shape"] == "second_scheduler" and label and label not in cluster["node_labels"]:
        yield (
            f"no node has the label {label}: set extended_scheduler_node_label to a label of the nodes for the scheduler, or to an empty "
            "text for any node"
        )
    if variables["__extended_scheduler_files"]["scrapes_nodes"] and len(nodes) > MOST_SCRAPED:
        yield (
            f"the cluster has {len(nodes)} nodes, and an extender reads the node_exporters of at most {MOST_SCRAPED} nodes itself: set "
            "extended_scheduler_prometheus_urls"
        )


def _is_true(value: t.Any) -> bool:
    return str(value).lower() == "true"  # ansible-core 2.18 makes a text of an expression
