# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The actions of a decision."""

from __future__ import annotations

RESTART = "restart"
RESUME = "resume"
SKIPPED = "skipped"
REFUSED = "refused"


EVICT = "evict"
WAIT = "wait"
