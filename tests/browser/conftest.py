# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A browser for the tests of pages."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.browser.browser import Page, browser
from tools import chromium
from tools.errors import ToolError


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The browser. Without one the tests are skipped, or fail under KUBE_SCHEDULING_REQUIRE_ENGINE=1."""
    reason = chromium.missing_platform()
    try:
        if not reason:
            chromium.ensure()
    except ToolError as error:
        reason = str(error)
    if reason and os.environ.get("KUBE_SCHEDULING_REQUIRE_ENGINE") == "1":
        pytest.fail(f"not run: {reason}")
    if reason:
        pytest.skip(f"not run: {reason}")
    with browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture
def page(started: Page) -> Page:
    """A tab without problems."""
    started.problems.clear()
    return started
