# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The objects that all steps of the rescues of one program use, and the functions that make its API client and its informer."""

from __future__ import annotations

from dataclasses import dataclass

from ...kube.cache.informer import CACHED_RESOURCES, WORKLOAD_RESOURCES, ClusterInformer
from ...kube.client.api import KubeApi
from ...rescue.options import RescueOptions
from ..common.leader_lease import LeaderLease
from ..common.scheduler_profiles import read_scheduler_profiles
from .eviction_requests import REQUEST_TIMEOUT_S
from .observer import RescueObserver
from .records.attempt_store import AttemptStore

RETRY_FOR_S = 5.0
"""Seconds for which a request is repeated after a transient error. After that the next reconciliation decides on a newer state."""
ANSWER_TIMEOUT_S = REQUEST_TIMEOUT_S
"""Limit of seconds for one answer, the same as for an eviction."""
WRITE_WITHIN_S = 5.0
"""Limit of seconds for a write to a node, a pod's status or the ConfigMap.

The loop waits for the write, and a slow admission webhook must not block it for long. Requests for the Lease have the same limit. If the
server is slower, the program loses the Lease, so a longer limit for other writes would be useless.
"""


@dataclass(frozen=True)
class RescueEnvironment:
    """The objects that all steps of the rescues of one program use.

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


def rescue_client(api: KubeApi, lease: LeaderLease) -> KubeApi:
    """Return the API client for rescues.

    Requests without a quick answer are repeated on a newer state. Every write ends before the Lease can be lost.
    """
    return api.with_timeouts(
        retry_for_s=RETRY_FOR_S, answer_timeout_s=ANSWER_TIMEOUT_S, until=lease.ends_at_s, write_within_s=WRITE_WITHIN_S
    )


def rescue_informer(api: KubeApi, options: RescueOptions) -> ClusterInformer:
    """Return an informer of what these options need. Its snapshots have the profiles of ``scheduler_config``.

    Workloads are cached only for their maintenance windows and for the default constraints of a profile. Raise OptionError and KubeError.
    """
    profiles = read_scheduler_profiles(api, options.scheduler_config)
    needs_workloads = options.respect_windows or any(profile.default_constraints for profile in profiles.values())
    return ClusterInformer(api, (*CACHED_RESOURCES, *WORKLOAD_RESOURCES) if needs_workloads else CACHED_RESOURCES, profiles=profiles)
