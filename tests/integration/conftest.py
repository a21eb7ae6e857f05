# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the integration tests, the lab's clusters and namespaces, and what they say at the end."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from lab.pytest_fixtures import (
    budget_safe_cluster,
    fresh_cluster,
    fresh_module_cluster,
    lab_cluster,
    lab_folder,
    namespaces,
    session_cluster,
    session_cluster_without_preemption,
)
from tests import core
from tests.integration.fault_users import FAULTS

__all__ = [
    "budget_safe_cluster",
    "fresh_cluster",
    "fresh_module_cluster",
    "lab_cluster",
    "lab_folder",
    "namespaces",
    "session_cluster",
    "session_cluster_without_preemption",
]

SUMMARY = "summary"
LONGEST = "playbooks"


@pytest.fixture(scope="session", autouse=True)
def _faults_are_noted() -> Iterator[None]:
    """Each fault of an API server that a test injects."""
    with pytest.MonkeyPatch.context() as patches:
        FAULTS.watch(patches)
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """The faults of one module do not concern the next one."""
    FAULTS.begin(item.path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """A test that injects faults has no user of system:masters. This is checked here, because later its clusters are taken down."""
    result = yield
    requests = FAULTS.administrators_requests()
    assert not requests, f"the API server was broken, and programs have asked it as administrator: {requests}; use Cluster.service_account"
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the core before `-m` selects. The folder that takes longest comes first, so that no worker is left with it at the end."""
    core.mark(items)
    items.sort(key=lambda item: LONGEST not in item.path.parts)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print what tests have recorded as `SUMMARY`, such as how many decisions were compared."""
    for report in terminalreporter.getreports("passed"):
        for key, value in report.user_properties:
            if key == SUMMARY and report.when == "call":
                terminalreporter.write_line(value)
