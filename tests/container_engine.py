# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A container engine for the tests of the image and for molecule. A conftest.py imports the fixture by name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.errors import LabError
from lab.kind import engine
from tests.not_run import not_run


@pytest.fixture(scope="session")
def container_engine() -> Iterator[None]:
    """An engine that answers. Without one the tests are skipped, or fail under KUBE_SCHEDULING_REQUIRE_ENGINE=1."""
    try:
        started = engine.ensure(print)
    except LabError as error:
        not_run(error)
    yield
    if started:
        engine.stop(print)
