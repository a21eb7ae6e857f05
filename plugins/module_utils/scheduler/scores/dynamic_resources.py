# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Resource claims (kubernetes ``plugins/dynamicresources/dynamicresources.go``, Score and computeScore).

The plugin prefers nodes with devices for the first alternatives of a claim. Claims and devices are not read. Without claims, and for
extended resources that devices offer, it scores 0 on each node.
"""

from __future__ import annotations

from ...model.api.pod import Pod
from ...model.reason import PASSED, Reason, Reasons

DYNAMIC_RESOURCES = "DynamicResources"
_CLAIMS: Reasons = (Reason("resource_claims", "resource claims change the scores of nodes, and they are not read"),)


def claim_score_unknowns(pod: Pod) -> Reasons:
    """Return the reason why the scores of the plugin are not known."""
    return _CLAIMS if pod.spec.resource_claims else PASSED
