# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A restart of the workloads of a check, while no other run of the cluster restarts any."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ...kube.client.api import KubeApi
from ...kube.client.errors import KubeError, is_permission_error
from ...model.reason import Reason
from ...model.undecodable import Undecodable
from ...spread.restart.actions import SKIPPED
from ...spread.restart.options import RestartOptions
from ...spread.restart.targets import Target
from ..restart.result import RestartResult
from ..restart.run import run_restart
from .rebalance_lease import PATH, RebalanceLease


def run_leased_restart(
    api: KubeApi, targets: Sequence[Target], options: RestartOptions, *, undecodable: t.Optional[list[Undecodable]] = None
) -> list[RestartResult]:
    """Do the same as ``run_restart`` while this run holds the Lease of rebalancing runs.

    If another run holds it, all targets are skipped. Without the permission for the Lease, the run has a warning and continues, and its
    limits do not include other runs. A dry run needs no Lease. There must be at least one target. Raise KubeError and OptionError.
    """
    if options.dry_run:
        return run_restart(api, targets, options, undecodable=undecodable)
    lease = RebalanceLease(api)
    try:
        acquired = lease.acquire()
    except KubeError as error:
        if not is_permission_error(error):
            raise
        results = run_restart(api, targets, options, undecodable=undecodable)
        results[0].warnings.append(f"the limits hold only for this run, because the Lease {PATH} cannot be used: {error}")
        return results
    if not acquired:
        return [_skipped(target, lease.another_run) for target in dict.fromkeys(targets)]
    try:
        return run_restart(api, targets, options, undecodable=undecodable, stop=lease.violation)
    finally:
        lease.release()


def _skipped(target: Target, reason: Reason) -> RestartResult:
    """Return the result of a target that is not begun."""
    result = RestartResult(target)
    result.end(SKIPPED, reason)
    return result
