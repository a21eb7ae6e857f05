# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The actions of a decision, and the actions in the result of a restart and of its plan."""

from __future__ import annotations

RESTART = "restart"
RESUME = "resume"
EVICT = "evict"
WAIT = "wait"

RESTARTED = "restarted"
EVICTED = "evicted"
FAILED_ACTION = "failed"

VANISHED = "vanished"
"""The code of the reason of a target that does not exist."""

# The actions of a plan. Those with _if have a condition.
WOULD_RESTART = "would_restart"
WOULD_RESTART_IF = "would_restart_if"
WOULD_EVICT = "would_evict"
WOULD_EVICT_IF = "would_evict_if"
PLANNED = (WOULD_RESTART, WOULD_RESTART_IF, WOULD_EVICT, WOULD_EVICT_IF)
CONDITIONAL = (WOULD_RESTART_IF, WOULD_EVICT_IF)

# A decision and a result may have these.
SKIPPED = "skipped"
REFUSED = "refused"
