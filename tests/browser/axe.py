# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The barriers that axe-core finds in a page."""

from __future__ import annotations

import json

from tests.browser.browser import Page
from tools import axe

RUN = "axe.run(document, {resultTypes: ['violations']}).then(found => JSON.stringify(found))"
FEWEST_RULES = 15
"""The rules that apply to any page with a heading, a table and controls. Fewer mean that axe-core has not seen the page."""


def violations(page: Page) -> list[str]:
    """Return each violation of a rule, with the elements, for the page as it is shown now."""
    page.value(axe.ensure().read_text(encoding="utf-8") + "; 0")
    found = json.loads(page.promised(RUN))
    assert len(found["passes"]) >= FEWEST_RULES, "axe-core has not seen the page"
    return [f"{one['id']}: {one['help']}: {[node['html'][:200] for node in one['nodes'][:3]]}" for one in found["violations"]]
