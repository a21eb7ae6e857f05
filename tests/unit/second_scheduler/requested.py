# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The variables of the role extended_scheduler with its defaults, and what the filter makes of them."""

from __future__ import annotations

from typing import Any

import yaml
from ansible_collections.onprem.kube_scheduling.plugins.filter.scheduler_files import scheduler_files
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.second_scheduler.presets import PRESETS

from tools.paths import ROOT

Json = dict[str, Any]

PREFIX = "extended_scheduler_"
PROMETHEUS = ["http://prometheus.example.org:9090"]
DEFAULTS: Json = yaml.safe_load((ROOT / "roles" / "extended_scheduler" / "defaults" / "main.yml").read_text())
CASES = [(preset, weights) for preset in PRESETS for weights in PRESETS[preset]]
"""Each preset with each kind of weights."""


def files(**variables: Any) -> Json:
    """Return the files and the mistakes of a role with these variables."""
    defaults = {name.removeprefix(PREFIX): value for name, value in DEFAULTS.items()}
    found: Json = scheduler_files(defaults | variables)
    return found
