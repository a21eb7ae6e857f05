# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rebalancer as a program: it reads the settings, makes one pass or one after the other, and returns an exit code."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...plugins.module_utils.kube.client.api import KubeApi
from ...plugins.module_utils.kube.client.early_denials import EarlyDenials
from ...plugins.module_utils.kube.client.http.transport import Transport
from ...plugins.module_utils.kube.client.open_transport import open_transport
from ..common.health import Health
from ..common.log import Log
from ..common.program_run import GOOD_ORDER, run_program, serving
from ..common.registry import new_registry
from ..common.signals import ShutdownSignal
from .passes import Passes
from .settings import PROGRAM, Settings, read_settings

USER_AGENT = "onprem.kube_scheduling/rebalancer"
SLICE_S = 0.2
"""The longest time in seconds until a signal is noticed between two passes."""


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Make one pass, or passes until a signal stops the program. Return the exit code."""
    return run_program(PROGRAM, lambda: read_settings(arguments, environment), _connected)


def _connected(settings: Settings, log: Log, shutdown: ShutdownSignal) -> int:
    kubeconfig = str(Path(settings.kubeconfig).expanduser()) if settings.kubeconfig else None
    with shutdown.stop_raises():
        transport = open_transport(user_agent=USER_AGENT, kubeconfig=kubeconfig, context=settings.context)
    name, context, server = transport.cluster
    log.info("connected", cluster=name, context=context or None, server=server, version=transport.server_version or None)
    return _run(settings, transport, log, shutdown)


def _run(settings: Settings, transport: Transport, log: Log, shutdown: ShutdownSignal) -> int:
    health = Health()

    def sleep(seconds: float) -> None:
        """Wait before a request is repeated."""
        health.heartbeat()
        time.sleep(seconds)

    api = KubeApi(transport, denials=EarlyDenials(time.monotonic), sleep=sleep)
    passes = Passes(settings, api, log=log, health=health, shutdown=shutdown)
    if not settings.interval:
        return passes.run()
    registry = new_registry()
    registry.register(passes.last)
    with serving(settings.listen_address, registry, health, log):
        return _loop(settings.interval, passes, health, shutdown, log)


def _loop(interval: int, passes: Passes, health: Health, shutdown: ShutdownSignal, log: Log) -> int:
    """Make passes until a signal. An error of a pass makes the program unready, and the next pass tries again."""
    while not shutdown.stopping:
        passes.run()
        health.set_unready([passes.error] if passes.error else [])
        end_at_s = time.monotonic() + interval
        while not shutdown.stopping and time.monotonic() < end_at_s:
            health.heartbeat()
            time.sleep(min(SLICE_S, interval))
    health.set_unready(["it has ended"])
    log.info("stopped")
    return GOOD_ORDER
