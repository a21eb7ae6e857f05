# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The expressions, metrics and labels of the Grafana dashboard of the role extended_scheduler."""

from __future__ import annotations

import json
import re
from typing import Any

from tools.paths import ROOT

DASHBOARD: dict[str, Any] = json.loads((ROOT / "roles" / "extended_scheduler" / "files" / "grafana_dashboard.json").read_text())
_METRIC = re.compile(r"\b((?:scheduler|kube_scheduling|leader_election)_\w+)(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"\bby \(([^)]*)\)")


def panels() -> list[dict[str, Any]]:
    """Return the panels, with the rows."""
    found: list[dict[str, Any]] = DASHBOARD["panels"]
    return found


def expressions() -> list[str]:
    """Return the expressions as Grafana sends them, with values for its variables."""
    asked = [target["expr"] for panel in panels() for target in panel.get("targets", [])]
    return [text.replace("$__rate_interval", "5m").replace("$profile", ".*") for text in asked]


def metrics_and_labels() -> list[tuple[str, set[str]]]:
    """Return each metric with the labels by which an expression selects or groups its series. ``le`` is left out."""
    found = []
    for text in expressions():
        grouped = {label.strip() for labels in _GROUPED.findall(text) for label in labels.split(",")}
        for name, selectors in _METRIC.findall(text):
            found.append((name, {*grouped, *re.findall(r"(\w+)=", selectors)} - {"le"}))
    return found
