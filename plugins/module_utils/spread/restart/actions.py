# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The actions of a decision, and the actions in the result of a restart."""

from __future__ import annotations

RESTART = "restart"
RESUME = "resume"
EVICT = "evict"
WAIT = "wait"

RESTARTED = "restarted"
EVICTED = "evicted"
FAILED_ACTION = "failed"

# A decision and a result may have these.
SKIPPED = "skipped"
REFUSED = "refused"
