# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One rebalancing pass: check, restart the workloads that a restart spreads, and check again."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...kube.client.api import KubeApi
from ...kube.client.errors import KubeError
from ...model.option_values import OptionError
from ...model.reason import Reason
from ...model.undecodable import Undecodable
from ...spread.restart.targets import read_check
from ..check.result import check_result
from ..check.run import run_check
from ..restart.result import restart_result
from ..restart.run import run_restart
from ..restart.stopping import Stop, never_stop
from .options import PassOptions
from .rebalance_lease import RebalanceLease

Json = dict[str, t.Any]


@dataclass
class PassResult:
    """The results of the parts of one pass, as the modules return them. None if a part was not done.

    ``stopped``: the reason why the pass moved nothing, or ended before all workloads were done. None if it is complete. ``error``: the
    error that ended it after the first check.
    """

    before: t.Optional[Json] = None
    restart: t.Optional[Json] = None
    after: t.Optional[Json] = None
    stopped: t.Optional[Reason] = None
    error: t.Optional[Exception] = None


def run_pass(api: KubeApi, options: PassOptions, *, interrupted: Stop = never_stop) -> PassResult:
    """Make one pass. If another run holds the Lease, nothing is read and done, and ``stopped`` names the holder.

    ``interrupted`` is asked during the pass: if it returns a reason, the pass ends after the write in progress, and the next pass
    continues. A dry run needs no Lease and no permission to write. Raise OptionError (names that the cluster does not have) and KubeError
    if the first check or the request for the Lease fails.
    """
    if options.restart.dry_run:
        return _Pass(api, options, interrupted).run()
    lease = RebalanceLease(api, lambda: interrupted() is not None)
    if not lease.acquire():
        return PassResult(stopped=interrupted() or lease.another_run)
    try:
        result = _Pass(api, options, lambda: interrupted() or lease.violation()).run()
    finally:
        lease.release()
    result.error = result.error or lease.error
    return result


class _Pass:
    def __init__(self, api: KubeApi, options: PassOptions, stop: Stop) -> None:
        self._api, self._options, self._stop = api, options, stop
        self._result = PassResult()

    def run(self) -> PassResult:
        self._result.before = self._check()
        try:
            self._restart(self._result.before)
            if self._moved and self._result.stopped is None:
                self._result.after = self._check()
        except (KubeError, OptionError) as error:
            self._result.error = error
        return self._result

    def _check(self) -> Json:
        options = self._options.check
        _snapshot, report = run_check(self._api, options)
        # The report has a healthy workload if the result of its earlier restart is recorded now.
        return check_result(report, options, include_healthy=True)

    def _restart(self, before: Json) -> None:
        options = self._options.restart
        targets = options.targets(read_check(before))
        if not targets:
            return
        undecodable: list[Undecodable] = []
        results = run_restart(self._api, targets, options, undecodable=undecodable, stop=self._ask)
        self._result.restart = restart_result(results, named=False, undecodable=undecodable)

    def _ask(self) -> t.Optional[Reason]:
        """Return the reason to stop, and record it."""
        self._result.stopped = self._stop()
        return self._result.stopped

    @property
    def _moved(self) -> bool:
        """True if something was moved, or the result of an earlier move was recorded."""
        entries = (self._result.restart or {}).get("workloads", ())
        return not self._options.restart.dry_run and any(entry["outcome"] for entry in entries)
