# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a test that needs something which this machine does not have, such as a container engine."""

from __future__ import annotations

from typing import NoReturn

import pytest

from lab.kind import packages


def not_run(reason: object) -> NoReturn:
    """Skip the test with the reason, or fail under KUBE_SCHEDULING_REQUIRE_ENGINE=1."""
    refuse = pytest.fail if packages.permitted() else pytest.skip
    refuse(f"not run: {reason}")
