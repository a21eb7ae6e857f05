# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The tags of site.yml that cannot be skipped, because the checks before the installation have them, too."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

READS = ("ansible_skip_tags",)
TAGS = {"preflight", "node_exporter", "service_image", "spread_cronjob", "critical_rescuer", "extended_scheduler"}


def mistakes(variables: Mapping[str, t.Any]) -> list[str]:
    """Return a sentence if such a tag is skipped."""
    skipped = sorted(TAGS.intersection(variables["ansible_skip_tags"]))
    return [
        f"--skip-tags {','.join(skipped)} would skip the checks before the installation, too. Choose the parts with --tags, or set"
        " site_spread_cronjob, site_critical_rescuer, site_scheduler or site_node_exporter to false."
    ] if skipped else []  # fmt: skip
