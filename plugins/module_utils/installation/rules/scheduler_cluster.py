# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The obstacles that a cluster has for the variables of the role extended_scheduler."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping

PREFIX = "__extended_scheduler_"
OPTIONS = ("state", "shape", "namespaces", "node_label")
FACTS: tuple[str, ...] = ("has_policies", "version", "policy_version", "cluster", "files", "namespace")
FACTS += ("users", "is_forced", "dropped", "all_errors", "plan")
READS = (*(f"extended_scheduler_{name}" for name in OPTIONS), *(PREFIX + name for name in FACTS))
MOST_SCRAPED, MOST_SHOWN = 200, 20
TWO_SCHEDULERS = (
    "The cluster has two schedulers then. They do not see each other's nominations, and may give the same free capacity to two pods at the "
    "same time. The kubelet rejects one of these pods, for example with OutOfcpu, and its controller creates another one."
)


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each obstacle. Those of hosts have been found before."""
    given = {name.removeprefix(PREFIX).removeprefix("extended_scheduler_"): value for name, value in variables.items()}
    found = [*_other_shapes(given), *(_unfit(given) if given["state"] == "present" else []), *_missing_files(given), *_users(given)]
    return found + ([] if given["shape"] == "second_scheduler" else given["all_errors"])


def remarks(variables: Mapping[str, t.Any]) -> list[str]:
    """Return sentences about two schedulers, and about the change of one."""
    if variables["extended_scheduler_shape"] == "kubeadm":
        warnings: list[str] = variables[f"{PREFIX}plan"]["warnings"]
        return warnings
    return [TWO_SCHEDULERS] if variables["extended_scheduler_state"] == "present" else []


def _other_shapes(given: Mapping[str, t.Any]) -> Iterator[str]:
    shape = given["shape"]
    marked = given["cluster"]["marked"]
    shapes = [mark["shape"] for mark in marked]
    # The shape systemd has the mark of kubeadm, too.
    for mark in (mark for mark in marked if mark["shape"] not in (shape, "kubeadm" if "systemd" in shapes else "")):
        if given["state"] == "present":
            yield (
                f"{mark['what']}, and two schedulers must not have the same profile: remove it first, with extended_scheduler_shape: "
                f"{mark['shape']}, extended_scheduler_state: absent and extended_scheduler_force: true. Its pods wait until this shape is "
                "installed"
            )
        elif shape not in shapes:
            yield f"{mark['what']}, and extended_scheduler_shape is {shape}: set it to {mark['shape']} to remove that"


def _unfit(given: Mapping[str, t.Any]) -> Iterator[str]:
    if given["namespaces"] and not _is_true(given["has_policies"]):
        yield (
            f"extended_scheduler_namespaces is set, and Kubernetes is {given['version']}: a MutatingAdmissionPolicy needs "
            f"{given['policy_version']} or later, so remove the variable, and set schedulerName in the workloads"
        )
    nodes, label = given["cluster"]["node_names"], given["node_label"]
    if given["shape"] == "second_scheduler" and label and label not in given["cluster"]["node_labels"]:
        yield (
            f"no node has the label {label}: set extended_scheduler_node_label to a label of the nodes for the scheduler, or to an empty "
            "text for any node"
        )
    if given["files"]["scrapes_nodes"] and len(nodes) > MOST_SCRAPED:
        yield (
            f"the cluster has {len(nodes)} nodes, and an extender reads the node_exporters of at most {MOST_SCRAPED} nodes itself: set "
            "extended_scheduler_prometheus_urls"
        )


def _missing_files(given: Mapping[str, t.Any]) -> Iterator[str]:
    for item in given["cluster"]["missing_files"]:
        name = f"{item['kind']} {given['namespace']}/{item['name']}"
        if not item["exists"]:
            yield f"the settings name a file of {name}, which does not exist: create it with the key {item['key']}"
        else:
            yield f"the settings name the key {item['key']} of {name}, which it does not have: add the key, or correct the path of the file"


def _users(given: Mapping[str, t.Any]) -> Iterator[str]:
    users = (given["users"] or {}).get("users")
    if users and not _is_true(given["is_forced"]):
        shown = ", ".join(users[:MOST_SHOWN]) + (", …" if len(users) > MOST_SHOWN else "")
        yield (
            f"{', '.join(given['dropped'])} would be removed, and {len(users)} pods or workloads would wait for it: {shown}: give them "
            "another schedulerName, or set extended_scheduler_force: true"
        )


def _is_true(value: t.Any) -> bool:
    return str(value).lower() == "true"  # ansible-core 2.18 makes a text of an expression
