# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The rescuer as a program: it reads the settings and returns an exit code."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from ...plugins.module_utils.kube.client.api import KubeApi
from ...plugins.module_utils.kube.client.early_denials import EarlyDenials
from ...plugins.module_utils.kube.client.errors import ConfigurationError
from ...plugins.module_utils.kube.client.open_transport import open_transport
from ...plugins.module_utils.model.option_values import OptionError
from ..common.health import Health
from ..common.http.endpoints import Endpoints
from ..common.leadership import TEMPORARY
from ..common.log import Log
from ..common.program_run import API, CONFIGURATION, GOOD_ORDER, run_program
from ..common.signals import ShutdownSignal, StoppedAtStartError
from .daemon import Daemon
from .metrics import Metrics
from .settings import PROGRAM, Settings, read_settings

USER_AGENT = "onprem.kube_scheduling/rescuer"


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run until a signal stops the program, and return the exit code."""
    return run_program(PROGRAM, lambda: read_settings(arguments, environment), _serve)


def _serve(settings: Settings, log: Log, shutdown: ShutdownSignal) -> int:
    metrics, health = Metrics(), Health()
    endpoints = None
    if settings.listen_address is not None:
        try:
            endpoints = Endpoints(settings.listen_address, metrics.registry, health)
        except (OSError, UnicodeError) as error:
            log.error(f"listen_address is {settings.listen_address}: {error}")
            return CONFIGURATION
        log.info("serving metrics and health", address=str(endpoints.address))
    try:
        return _work(settings, log, shutdown, metrics, health)
    finally:
        if endpoints is not None:
            endpoints.close()


def _work(settings: Settings, log: Log, shutdown: ShutdownSignal, metrics: Metrics, health: Health) -> int:
    _sleep(settings.initial_delay, shutdown, health)
    if shutdown.stopping:
        return GOOD_ORDER
    try:
        with shutdown.stop_raises():
            transport = open_transport(user_agent=USER_AGENT, kubeconfig=settings.kubeconfig, context=settings.context)
        api = KubeApi(transport, denials=EarlyDenials(time.monotonic, patient=True))
        name, context, server = transport.cluster
        cluster = {"cluster": name, "context": context or None, "server": server, "version": transport.server_version or None}
        Daemon(settings, api, log=log, metrics=metrics, health=health, shutdown=shutdown, cluster=cluster).run()
    except StoppedAtStartError:
        log.info("stopped before it has begun")
    except (ConfigurationError, OptionError) as error:
        log.error(str(error))
        return CONFIGURATION
    except TEMPORARY as error:
        log.error(str(error))
        return API
    return GOOD_ORDER


def _sleep(seconds: int, shutdown: ShutdownSignal, health: Health) -> None:
    for _second in range(seconds):
        if shutdown.stopping:
            return
        time.sleep(1)
        health.heartbeat()
