# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What a rule answers about a node."""

from __future__ import annotations

from ..model.reasons import Reason

Reasons = tuple[Reason, ...]
"""Empty where a rule has nothing against the node."""

PASSED: Reasons = ()
