# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of configurations for the tests of scheduler_config."""

from __future__ import annotations

from typing import Any

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.versions import KIND, ConfigTarget, full_name

Json = dict[str, Any]

NEWEST = ConfigTarget("v1", 36)
EXTENDER: Json = {
    "urlPrefix": "http://127.0.0.1:8080/scheduler",
    "prioritizeVerb": "prioritize",
    "weight": 1,
    "nodeCacheCapable": True,
    "ignorable": True,
    "httpTimeout": "200ms",
}


def configuration(**fields: Any) -> Json:
    """Return a configuration of version v1 with these fields."""
    return {"apiVersion": full_name("v1"), "kind": KIND, **fields}


def profile(name: str = "default-scheduler", **fields: Any) -> Json:
    """Return a profile with these fields."""
    return {"schedulerName": name, **fields}


def plugins(point: str, *enabled: str, disabled: tuple[str, ...] = ()) -> Json:
    """Return the plugin sets of a profile with one extension point."""
    return {point: {"enabled": [{"name": name} for name in enabled], "disabled": [{"name": name} for name in disabled]}}


def arguments(plugin: str, **args: Any) -> list[Json]:
    """Return the pluginConfig of a profile with the arguments of one plugin."""
    return [{"name": plugin, "args": args}]
