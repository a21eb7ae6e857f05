# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The parts that all steps of the rescues of one program use."""

from __future__ import annotations

from dataclasses import dataclass

from ...kube.cache.informer import ClusterInformer
from ...kube.client.api import KubeApi
from ...rescue.options import RescueOptions
from ..common.leader_lease import LeaderLease
from .observer import RescueObserver
from .records.attempt_store import AttemptStore


@dataclass(frozen=True)
class RescueEnvironment:
    """The parts that all steps of the rescues of one program use.

    ``api``: the client of ``rescue_client``. ``writer``: the identity of the program in its holds. With ``dry_run``, plans are made and
    checked by dry runs, and nothing is changed.
    """

    api: KubeApi
    cache: ClusterInformer
    options: RescueOptions
    lease: LeaderLease
    attempts: AttemptStore
    observer: RescueObserver
    writer: str
    dry_run: bool = False
