# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The mistakes in the variables of the role extended_scheduler. ``second_scheduler/mistakes.py`` finds those in profiles and extenders."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from ..sentences import CONTROL_PLANE, host_mistakes, path_mistakes, secret_mistakes, user_mistakes

PATHS = ("manifest_path", "extender_manifest_path", "folder", "program_folder")
START_S = 60


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence for each mistake."""
    is_installed, shape = variables["extended_scheduler_state"] == "present", variables["extended_scheduler_shape"]
    found = []
    if is_installed:
        found += _files(variables).get("mistakes", [])
        if not variables["extended_scheduler_extender_image"] and shape != "systemd":
            found.append(
                "extended_scheduler_extender_image is empty: set it to the image of the services, or use the playbook scheduler, which"
                " names this image"
            )
        if variables["extended_scheduler_render_to"] and not variables["extended_scheduler_image"]:
            found.append(
                "extended_scheduler_image is empty: with extended_scheduler_render_to the version of the cluster is not read, so name the"
                " image"
            )
    if shape == "second_scheduler":
        return found
    # The shapes kubeadm and systemd, also when they are removed.
    found += _host_mistakes(variables, shape)
    if is_installed and shape == "systemd":
        found += [*_binary_mistakes(variables), *_unit_mistakes(variables)]
    elif is_installed:
        found += secret_mistakes("extended_scheduler_image_pull_secrets", variables["extended_scheduler_image_pull_secrets"])
    return found + _other_mistakes(variables, shape)


def _files(variables: Mapping[str, t.Any]) -> Mapping[str, t.Any]:
    return variables["__extended_scheduler_files"] or {}


def _host_mistakes(variables: Mapping[str, t.Any], shape: str) -> list[str]:
    groups, limit = variables["groups"], variables["ansible_limit"]
    hosts = variables["extended_scheduler_hosts"] or (groups.get(CONTROL_PLANE, []) if shape == "kubeadm" else [])
    found = []
    if not hosts:
        group = f", or fill the group {CONTROL_PLANE}" if shape == "kubeadm" else ""
        found.append(f"extended_scheduler_shape is {shape}, and there is no host for it: set extended_scheduler_hosts{group}")
    left_out = [host for host in hosts if host not in (variables["__extended_scheduler_limited"] or [])]
    if limit and left_out:
        found.append(
            f"--limit {limit} leaves out {', '.join(left_out)}: all hosts of the shape are changed, one after the other, so remove --limit,"
            " or add these hosts"
        )
    return found + host_mistakes("extended_scheduler_hosts", hosts, groups)


def _binary_mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    path, archive = variables["extended_scheduler_binary_path"], variables["extended_scheduler_binary_archive"]
    checksum = variables["extended_scheduler_binary_checksum"]
    if path and archive:
        return ["extended_scheduler_binary_path and extended_scheduler_binary_archive are both set: remove one of them"]
    if archive and not re.match("(sha256:)?[0-9A-Fa-f]{64}$", str(checksum)):
        return [
            f"extended_scheduler_binary_checksum is {checksum or 'empty'}: set it to the SHA-256 sum of extended_scheduler_binary_archive,"
            " 64 hexadecimal digits"
        ]
    if not path and not archive:
        return [
            "there is no kube-scheduler to install: set extended_scheduler_binary_path, or extended_scheduler_binary_archive and"
            " extended_scheduler_binary_checksum"
        ]
    return []


def _unit_mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    found = []
    names = ("extended_scheduler_scheduler_kubeconfig", "extended_scheduler_extender_kubeconfig")
    given = [name for name in names if variables[name]]
    if len(given) == 1:
        found.append(f"only one of {names[0]} and {names[1]} is set: set both, or none of them")
    elif not given and not variables["groups"].get(CONTROL_PLANE):
        found.append(
            f"there are no kubeconfigs: set {names[0]} and {names[1]}, or fill the group {CONTROL_PLANE}, whose first host makes them with"
            " kubeadm"
        )
    port, user = variables["extended_scheduler_secure_port"], variables["extended_scheduler_scheduler_user"]
    extenders = _files(variables).get("extenders", [])
    if port > 65535 or port in [extender[name] for extender in extenders for name in ("port", "status_port")]:
        found.append(f"extended_scheduler_secure_port is {port}: set it to a port up to 65535 that no extender uses")
    if not user or user == variables["extended_scheduler_user"] or user.startswith("system:"):
        found.append(
            f"extended_scheduler_scheduler_user is {user or 'empty'}: choose a name that does not begin with system: and is not that of"
            " extended_scheduler_user"
        )
    return found


def _other_mistakes(variables: Mapping[str, t.Any], shape: str) -> list[str]:
    found = path_mistakes(variables, [f"extended_scheduler_{name}" for name in PATHS])
    found += user_mistakes("extended_scheduler_user", variables["extended_scheduler_user"])
    if variables["extended_scheduler_render_to"]:
        found.append(f"extended_scheduler_render_to is set, and the shape {shape} writes files on hosts, which are not rendered: remove it")
    if variables["extended_scheduler_wait_timeout"] < START_S:
        found.append(
            f"extended_scheduler_wait_timeout is {variables['extended_scheduler_wait_timeout']}: a kube-scheduler needs up to 35 s until it"
            f" is ready, so set at least {START_S}"
        )
    return found
