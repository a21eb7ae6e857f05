# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A browser for the tests of pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser.browser import Page, browser
from tools import chromium
from tools.errors import ToolError


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The browser. The tests are skipped where it cannot be downloaded, because not every machine reaches an npm registry.

    This is also so with KUBE_SCHEDULING_REQUIRE_ENGINE=1, because a registry that does not answer is no defect of the program.
    """
    reason = chromium.missing_platform()
    try:
        if not reason:
            chromium.ensure()
    except ToolError as error:
        reason = str(error)
    if reason:
        pytest.skip(f"not run: {reason}")
    with browser(tmp_path_factory.mktemp("browser")) as page:
        yield page


@pytest.fixture
def page(started: Page) -> Page:
    """A tab without problems."""
    started.problems.clear()
    return started
