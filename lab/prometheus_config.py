# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The configuration file of a Prometheus with fixed targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JOB = "node"


@dataclass(frozen=True)
class Target:
    """An exporter: HOST:PORT, the path of its metrics, and labels for all its series. Without a label `instance` it is HOST:PORT."""

    address: str
    path: str = "/metrics"
    labels: Mapping[str, str] = field(default_factory=dict)


def configuration(
    targets: Sequence[Target], *, scrape_interval: str, rule_files: Sequence[Path] = (), scrape_config_files: Sequence[Path] = ()
) -> dict[str, Any]:
    """Return the configuration. ``scrape_interval`` is a duration of Prometheus such as `200ms`. ``scrape_config_files``: more targets."""
    return {
        "global": {"scrape_interval": scrape_interval, "scrape_timeout": scrape_interval, "evaluation_interval": scrape_interval},
        "rule_files": [str(path) for path in rule_files],
        "scrape_config_files": [str(path) for path in scrape_config_files],
        "scrape_configs": [{"job_name": JOB, "static_configs": [_static(target) for target in targets]}],
    }


def _static(target: Target) -> dict[str, Any]:
    return {"targets": [target.address], "labels": {**target.labels, "__metrics_path__": target.path}}
