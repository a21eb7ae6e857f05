# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A pod whose eviction was refused is not evicted for now."""

from __future__ import annotations

import typing as t
from collections.abc import Collection

from ...model.reason import Reason
from ..victims.node_pod import NodePod

EXCLUDED = Reason("excluded", "its eviction was refused, so that it is excluded for now")


def excluded_violation(node_pod: NodePod, excluded_victims: Collection[str]) -> t.Optional[Reason]:
    """Return a reason for an excluded pod. ``excluded_victims``: the uids of the pods that may not be evicted now."""
    return EXCLUDED if node_pod.pod.metadata.uid in excluded_victims else None
