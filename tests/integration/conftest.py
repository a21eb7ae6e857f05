# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the integration tests, the lab's clusters and namespaces, and what they say at the end."""

from __future__ import annotations

from typing import Any

import pytest

from lab.pytest_fixtures import fresh_cluster, fresh_module_cluster, lab_cluster, lab_folder, namespaces

__all__ = ["fresh_cluster", "fresh_module_cluster", "lab_cluster", "lab_folder", "namespaces"]

SUMMARY = "summary"
LONGEST = "playbooks"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The folder that takes longest comes first, so that with several workers none is left with it at the end."""
    items.sort(key=lambda item: LONGEST not in item.path.parts)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what tests have recorded as `SUMMARY`, such as how many decisions were compared."""
    for report in terminalreporter.getreports("passed"):
        for key, value in report.user_properties:
            if key == SUMMARY and report.when == "call":
                terminalreporter.write_line(value)
