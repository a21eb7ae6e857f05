# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One pass of the program: its log lines, its metrics and its exit code."""

from __future__ import annotations

import time
import typing as t
from pathlib import Path

from ...plugins.module_utils.kube.client.api import KubeApi
from ...plugins.module_utils.kube.client.errors import ConfigurationError
from ...plugins.module_utils.model.option_values import OptionError
from ...plugins.module_utils.model.reason import Reason
from ...plugins.module_utils.operations.check.result import read_error
from ...plugins.module_utils.operations.rebalance.run import PassResult, run_pass
from ...plugins.module_utils.report.rebalance_metrics import rebalance_gauges
from ...plugins.module_utils.report.rows import Report, Row, build_report
from ..common.health import Health
from ..common.leadership import TEMPORARY
from ..common.log import Log
from ..common.program_run import API, CONFIGURATION, FAILED, GOOD_ORDER
from ..common.signals import ShutdownSignal
from .metrics import LastPass, push, write_file
from .settings import Settings

STOPPING = Reason("stopping", "the program was told to stop; the next pass continues")


class Passes:
    """Makes passes. ``last``: the metrics of the last one. ``error``: the error of the last one, or empty."""

    def __init__(self, settings: Settings, api: KubeApi, *, log: Log, health: Health, shutdown: ShutdownSignal) -> None:
        self._settings, self._api = settings, api
        self._log, self._health, self._shutdown = log, health, shutdown
        self.last = LastPass()
        self.error = ""

    def run(self) -> int:
        """Make one pass and return the exit code for it."""
        self.error = ""
        try:
            result = run_pass(self._api, self._settings.options, interrupted=self._interrupted)
        except (OptionError, ConfigurationError, *TEMPORARY) as error:
            result = PassResult(error=error)
        return self._end(result)

    def _interrupted(self) -> Reason | None:
        self._health.heartbeat()
        return STOPPING if self._shutdown.stopping else None

    def _end(self, result: PassResult) -> int:
        if result.stopped is not None:
            self._log.info("pass stopped", reason=result.stopped.code, text=result.stopped.text)
        if result.stopped is not None and result.before is None:
            return GOOD_ORDER  # another run holds the Lease, or the program is stopped
        self.error = _error_of(result)
        report = build_report(result.before, after=result.after, restart=result.restart, plan=self._settings.dry_run, error=self.error)
        self._log_report(result, report)
        self.last.gauges = rebalance_gauges(
            result.before,
            after=result.after,
            restart=result.restart,
            plan=self._settings.dry_run,
            error=self.error,
            now_s=round(time.time(), 3),
        )
        # The numbers of a plan must not replace those of a run, which are in the same group or file.
        if not self._settings.dry_run:
            self._publish()
        return _exit_code(result, report)

    def _log_report(self, result: PassResult, report: Report) -> None:
        for row in report.rows:
            if not row.unremarkable:
                self._log.info("decision", **decision_fields(row))
        for warning in (result.restart or {}).get("warnings", ()):
            self._log.warning(warning)
        for name, text in report.skipped_objects.items():
            self._log.warning("object cannot be decoded", object=name, text=text)
        for reason, names in report.skipped_by_reason:
            self._log.warning("namespaces are left out", namespaces=names, reason=reason.code, text=reason.text)
        if self.error:
            self._log.error(self.error)
        self._log.info("pass ended", **_totals(report))

    def _publish(self) -> None:
        """Publish the metrics. A gateway or a file that cannot be used is a warning, because the workloads are moved."""
        if self._settings.pushgateway_url is not None:
            try:
                push(self.last, self._settings.pushgateway_url)
            except OSError as error:
                self._log.warning(f"the metrics cannot be pushed: {error}", pushgateway_url=self._settings.pushgateway_url)
        if self._settings.metrics_path is not None:
            try:
                write_file(self.last, Path(self._settings.metrics_path))
            except OSError as error:
                self._log.warning(f"the metrics cannot be written: {error}", metrics_path=self._settings.metrics_path)


def decision_fields(row: Row) -> dict[str, t.Any]:
    """Return the fields of the log line about one workload."""
    return {
        "workload": f"{row.kind} {row.namespace}/{row.name}",
        "verdict": row.before.verdict,
        "verdict_after": row.after.verdict or None if row.after is not None else None,
        "action": row.action or None,
        "reason": row.reason or None,
        "text": row.message or None,
        "outcome": row.outcome or None,
        "evicted": row.evicted or None,
        "seconds": row.duration_s or None,
    }


def _totals(report: Report) -> dict[str, t.Any]:
    totals = dict(report.totals)
    # The line has its own message. The error and the cluster have lines of their own.
    del totals["error"], totals["cluster"]
    totals["text"] = totals.pop("message") or None
    return {**totals, "reason": totals["reason"] or None}


def _error_of(result: PassResult) -> str:
    return read_error(result.before or {}) if result.error is None else str(result.error)


def _exit_code(result: PassResult, report: Report) -> int:
    if isinstance(result.error, (OptionError, ConfigurationError)):
        return CONFIGURATION
    if report.error:
        return API
    return GOOD_ORDER if report.totals["ok"] else FAILED
