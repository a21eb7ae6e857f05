# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal of an eviction: a pod of the workload cannot be decoded, so the number of its available replicas is not certain."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable

from ...model.api.pod import Pod
from ...model.reason import Reason
from ...model.undecodable import undecodable_of


def undecodable_pods_violation(pods: Iterable[Pod]) -> t.Optional[Reason]:
    """Return the reason of the first pod of the workload that cannot be decoded. None if all can be decoded."""
    found = next((one for one in map(undecodable_of, pods) if one is not None), None)
    return found.reason if found is not None else None
