# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The extender as a program: it reads the settings and returns an exit code."""

from __future__ import annotations

import errno
import sys
import time
from collections.abc import Mapping, Sequence

from ..common.allocator import limit_free_memory
from ..common.log import Log, set_up_log
from ..common.signals import ShutdownSignal
from ..common.typed_settings import SettingsError
from .assembly import Extender, queries_of
from .check_sources import report_on
from .config.named_files import named_file_mistakes
from .config.settings import PROGRAM, Inputs, Settings, read_inputs, read_settings
from .container_memory import memory_shortage
from .engine.engine import Engine
from .metrics import Metrics
from .sources.missing import missing_sources
from .sources.refresher import Sources

SECOND_SAMPLE_S = 5.0

GOOD_ORDER, BROKEN, CONFIGURATION = 0, 1, 2

REMEDIES: Mapping[int | None, str] = {
    errno.EADDRINUSE: "; end the other program, or set listen and status_address to other addresses",
    errno.EADDRNOTAVAIL: "; listen and status_address need an address of this machine",
}
"""The ends of the texts about addresses, by the number of the error."""


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run until a signal stops the program, and return the exit code."""
    limit_free_memory()
    try:
        inputs = read_inputs(arguments, environment)
        settings = read_settings(inputs)
    except SettingsError as error:
        for one in error.errors:
            print(f"extender: {one}", file=sys.stderr)
        return CONFIGURATION
    # The kubelet shows the last line of a program that ends, so that it must not be a traceback.
    except Exception as error:
        print(f"extender: the settings cannot be used: {type(error).__name__}: {error}", file=sys.stderr)
        return CONFIGURATION
    log = set_up_log(PROGRAM.name, form=settings.log_format, level=settings.log_level)
    if settings.check_config:
        return _check_config(settings)
    for text in (*settings.refused, *settings.notes):
        log.warning(text)
    if settings.check_sources:
        shortage = memory_shortage()
        if shortage:
            print(f"extender: {shortage}", file=sys.stderr)
            return BROKEN
        return _check_sources(settings, log)
    shutdown = ShutdownSignal()
    shutdown.install()
    try:
        return _serve(inputs, settings, log, shutdown)
    # The last line is the reason for the end of the process. The kubelet restarts the process.
    except Exception as error:
        log.error(f"ended by an error: {error}", cause=error)
        return BROKEN


def _serve(inputs: Inputs, settings: Settings, log: Log, shutdown: ShutdownSignal) -> int:
    try:
        extender = Extender(inputs, settings, log, shutdown)
    except OSError as error:
        log.error(
            f"cannot start: {error}{REMEDIES.get(error.errno, '')}",
            listen=str(settings.listen),
            status_address=str(settings.status_address or ""),
        )
        return CONFIGURATION
    extender.run()
    log.info("stopped")
    return GOOD_ORDER


def _check_config(settings: Settings) -> int:
    mistakes = named_file_mistakes(settings.sources, settings.server.tls)
    problems = [*settings.refused, *map(settings.values.shown, mistakes)]
    for text in problems:
        print(f"extender: {text}", file=sys.stderr)
    used = [one.agent for profile in settings.profiles.values() for one in profile.agents]
    for text in (*settings.notes, *missing_sources(settings.sources, used)):
        print(f"extender: note: {text}", file=sys.stderr)
    if problems:
        return CONFIGURATION
    for profile in settings.profiles.values():
        agents = ", ".join(f"{one.name} (weight {one.weight:g}{', filter' if one.filters else ''})" for one in profile.agents)
        print(f"profile {profile.name}: {agents}; unknown nodes: {profile.unknown}")
    print(f"{settings.values.document.file} can be used")
    return GOOD_ORDER


def _check_sources(settings: Settings, log: Log) -> int:
    metrics = Metrics(log)
    engine = Engine({}, metrics)
    sources = Sources(settings.sources, queries_of(settings.profiles), engine, log)
    try:
        sources.refresh_once()
        if settings.sources.node_exporter is not None:
            # A rate needs two samples.
            time.sleep(SECOND_SAMPLE_S)
            sources.refresh_once()
    finally:
        sources.stop()
    engine.reconfigure(settings.profiles)
    prometheus = settings.sources.prometheus
    report = report_on(engine, metrics.failed_agents, selector=prometheus.selector if prometheus is not None else "")
    for line in report.lines:
        print(line)
    for text in (*settings.refused, *report.problems, *(f"note: {note}" for note in report.notes)):
        print(f"extender: {text}", file=sys.stderr)
    return CONFIGURATION if report.problems or settings.refused else GOOD_ORDER
