# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rescuer as a program: it reads the settings and returns an exit code."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ...plugins.module_utils.kube.client.api import KubeApi
from ...plugins.module_utils.kube.client.early_denials import EarlyDenials
from ...plugins.module_utils.kube.client.open_transport import open_transport
from ..common.health import Health
from ..common.log import Log
from ..common.program_run import GOOD_ORDER, run_program, serving
from ..common.signals import ShutdownSignal
from .daemon import Daemon
from .metrics import Metrics
from .settings import PROGRAM, Settings, read_settings

USER_AGENT = "onprem.kube_scheduling/rescuer"


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run until a signal stops the program, and return the exit code."""
    return run_program(PROGRAM, lambda: read_settings(arguments, environment), _run)


def _run(settings: Settings, log: Log, shutdown: ShutdownSignal) -> int:
    metrics, health = Metrics(), Health()
    with serving(settings.listen_address, metrics.registry, health, log):
        _sleep(settings.initial_delay, shutdown, health)
        if shutdown.stopping:
            return GOOD_ORDER
        with shutdown.stop_raises():
            transport = open_transport(user_agent=USER_AGENT, kubeconfig=settings.kubeconfig, context=settings.context)
        api = KubeApi(transport, denials=EarlyDenials(time.monotonic, patient=True))
        name, context, server = transport.cluster
        cluster = {"cluster": name, "context": context or None, "server": server, "version": transport.server_version or None}
        Daemon(settings, api, log=log, metrics=metrics, health=health, shutdown=shutdown, cluster=cluster).run()
    return GOOD_ORDER


def _sleep(seconds: int, shutdown: ShutdownSignal, health: Health) -> None:
    for _second in range(seconds):
        if shutdown.stopping:
            return
        time.sleep(1)
        health.heartbeat()
