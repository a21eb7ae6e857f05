# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The mistakes in the variables of the role extended_scheduler. ``second_scheduler/mistakes.py`` finds those in profiles and extenders."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterable, Iterator, Mapping

from ..sentences import CONTROL_PLANE, host_mistakes, path_mistakes, secret_mistakes, user_mistakes

PATHS = [f"extended_scheduler_{name}" for name in ("manifest_path", "extender_manifest_path", "folder", "program_folder")]
START_S = 60


def mistakes(variables: Mapping[str, t.Any]) -> Iterator[str]:
    """Yield a sentence for each mistake."""
    is_installed, shape = variables["extended_scheduler_state"] == "present", variables["extended_scheduler_shape"]
    files = variables["__extended_scheduler_files"] or {}
    if is_installed:
        yield from files.get("mistakes", [])
        if not variables["extended_scheduler_extender_image"] and shape != "systemd":
            yield (
                "extended_scheduler_extender_image is empty: set it to the image of the services, or use the playbook scheduler, which"
                " names this image"
            )
        if variables["extended_scheduler_render_to"] and not variables["extended_scheduler_image"]:
            yield (
                "extended_scheduler_image is empty: with extended_scheduler_render_to the version of the cluster is not read, so name the"
                " image"
            )
    if shape == "second_scheduler":
        return
    # The shapes kubeadm and systemd, also when they are removed.
    yield from _host_mistakes(variables, shape)
    if is_installed and shape == "systemd":
        yield from _unit_mistakes(variables, files.get("extenders", []))
    elif is_installed:
        yield from secret_mistakes("extended_scheduler_image_pull_secrets", variables["extended_scheduler_image_pull_secrets"])
    yield from path_mistakes(variables, PATHS)
    yield from user_mistakes("extended_scheduler_user", variables["extended_scheduler_user"])
    if variables["extended_scheduler_render_to"]:
        yield f"extended_scheduler_render_to is set, and the shape {shape} writes files on hosts, which are not rendered: remove it"
    if variables["extended_scheduler_wait_timeout"] < START_S:
        yield (
            f"extended_scheduler_wait_timeout is {variables['extended_scheduler_wait_timeout']}: a kube-scheduler needs up to 35 s until it"
            f" is ready, so set at least {START_S}"
        )


def _host_mistakes(variables: Mapping[str, t.Any], shape: str) -> Iterator[str]:
    groups, limit = variables["groups"], variables["ansible_limit"]
    hosts = variables["extended_scheduler_hosts"] or (groups.get(CONTROL_PLANE, []) if shape == "kubeadm" else [])
    if not hosts:
        group = f", or fill the group {CONTROL_PLANE}" if shape == "kubeadm" else ""
        yield f"extended_scheduler_shape is {shape}, and there is no host for it: set extended_scheduler_hosts{group}"
    left_out = [host for host in hosts if host not in (variables["__extended_scheduler_limited"] or [])]
    if limit and left_out:
        yield (
            f"--limit {limit} leaves out {', '.join(left_out)}: all hosts of the shape are changed, one after the other, so remove --limit,"
            " or add these hosts"
        )
    yield from host_mistakes("extended_scheduler_hosts", hosts, groups)


def _unit_mistakes(variables: Mapping[str, t.Any], extenders: Iterable[Mapping[str, t.Any]]) -> Iterator[str]:
    path, archive = variables["extended_scheduler_binary_path"], variables["extended_scheduler_binary_archive"]
    checksum = variables["extended_scheduler_binary_checksum"]
    if path and archive:
        yield "extended_scheduler_binary_path and extended_scheduler_binary_archive are both set: remove one of them"
    elif archive and not re.match("(sha256:)?[0-9A-Fa-f]{64}$", str(checksum)):
        yield (
            f"extended_scheduler_binary_checksum is {checksum or 'empty'}: set it to the SHA-256 sum of extended_scheduler_binary_archive,"
            " 64 hexadecimal digits"
        )
    elif not path and not archive:
        yield (
            "there is no kube-scheduler to install: set extended_scheduler_binary_path, or extended_scheduler_binary_archive and"
            " extended_scheduler_binary_checksum"
        )
    names = ("extended_scheduler_scheduler_kubeconfig", "extended_scheduler_extender_kubeconfig")
    given = [name for name in names if variables[name]]
    if len(given) == 1:
        yield f"only one of {names[0]} and {names[1]} is set: set both, or none of them"
    elif not given and not variables["groups"].get(CONTROL_PLANE):
        yield (
            f"there are no kubeconfigs: set {names[0]} and {names[1]}, or fill the group {CONTROL_PLANE}, whose first host makes them with"
            " kubeadm"
        )
    port, user = variables["extended_scheduler_secure_port"], variables["extended_scheduler_scheduler_user"]
    if port > 65535 or port in [extender[name] for extender in extenders for name in ("port", "status_port")]:
        yield f"extended_scheduler_secure_port is {port}: set it to a port up to 65535 that no extender uses"
    if not user or user == variables["extended_scheduler_user"] or user.startswith("system:"):
        yield (
            f"extended_scheduler_scheduler_user is {user or 'empty'}: choose a name that does not begin with system: and is not that of"
            " extended_scheduler_user"
        )
