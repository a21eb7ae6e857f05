# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The mistakes in the variables of the role critical_rescuer."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping

from ..sentences import CONTROL_PLANE, config_mistakes, host_mistakes, image_mistakes, path_mistakes, secret_mistakes, user_mistakes


def mistakes(variables: Mapping[str, t.Any]) -> Iterator[str]:
    """Yield a sentence for each mistake."""
    yield from path_mistakes(variables, ("critical_rescuer_manifest_path", "critical_rescuer_static_folder"))
    settings, groups = variables["critical_rescuer_settings"] or {}, variables["groups"]
    if "listen_address" in settings:
        yield "critical_rescuer_settings has listen_address: remove it, because the role sets it, with the port of critical_rescuer_port"
    if variables["critical_rescuer_state"] != "present" or not variables["critical_rescuer_enabled"]:
        return
    yield from config_mistakes("critical_rescuer_settings", settings)
    yield from image_mistakes("critical_rescuer_image", variables["critical_rescuer_image"])
    hosts = variables["critical_rescuer_static_hosts"] or groups.get(CONTROL_PLANE, [])
    if variables["critical_rescuer_form"] == "static_pod":
        if not hosts and not variables["critical_rescuer_render_to"]:
            yield (
                "critical_rescuer_form is static_pod, and there is no host for it: set critical_rescuer_static_hosts, or fill the group"
                f" {CONTROL_PLANE}"
            )
        yield from secret_mistakes("critical_rescuer_image_pull_secrets", variables["critical_rescuer_image_pull_secrets"])
    yield from host_mistakes("critical_rescuer_static_hosts", hosts, groups)
    yield from user_mistakes("critical_rescuer_static_user", variables["critical_rescuer_static_user"])
