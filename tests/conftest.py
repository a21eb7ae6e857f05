# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin for all tests, and what single tests need."""

from __future__ import annotations

import os

import pytest

from tests.not_run import not_run
from tests.repeats import Repeats

pytest_configure = Repeats.register


@pytest.fixture(scope="session")
def as_root() -> None:
    """The test writes files of other users, starts units or mounts a disk."""
    if os.geteuid() != 0:
        not_run("only root can do what it does")
