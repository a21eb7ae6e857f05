# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Why a node does not take a pod: a stable code for programs, the scheduler's own words for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """One reason. ``plugin`` is the scheduler plugin that rejects, ``code`` stays the same over versions, ``text`` is what 1.36 says."""

    plugin: str
    code: str
    text: str


Reasons = tuple[Reason, ...]
"""Empty where a rule has nothing against the node."""

PASSED: Reasons = ()
