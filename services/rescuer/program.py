# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The program from its settings to its exit code."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.early_denials import EarlyDenials
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import ConfigurationError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.service_connection import connect

from .daemon import Daemon
from .endpoints import Endpoints
from .leadership import TEMPORARY
from .log import Log, set_up_log
from .metrics import Metrics
from .orders import Orders, StoppedAtStartError
from .settings import Settings, SettingsError, read_settings
from .watchdog import Watchdog

USER_AGENT = "onprem.kube_scheduling/rescuer"
GOOD_ORDER, BROKEN, CONFIGURATION, API = 0, 1, 2, 3


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run until told to stop; the exit code."""
    try:
        settings = read_settings(arguments, environment)
    except SettingsError as error:
        print(f"rescuer: {error}", file=sys.stderr)
        return CONFIGURATION
    log = set_up_log(form=settings.log_format, level=settings.log_level)
    orders = Orders()
    orders.install()
    try:
        return _serve(settings, log, orders)
    # The last line tells people why the process ended; the kubelet starts it again.
    except Exception as error:
        log.error(f"ended by an error: {error}", cause=error)
        return BROKEN


def _serve(settings: Settings, log: Log, orders: Orders) -> int:
    metrics, watchdog = Metrics(), Watchdog()
    endpoints = None
    if settings.listen is not None:
        try:
            endpoints = Endpoints(settings.listen, metrics.registry, watchdog)
        except (OSError, UnicodeError) as error:
            log.error(f"listen_address is {settings.listen}: {error}")
            return CONFIGURATION
        log.info("serving metrics and health", address=str(endpoints.address))
    try:
        return _work(settings, log, orders, metrics, watchdog)
    finally:
        if endpoints is not None:
            endpoints.close()


def _work(settings: Settings, log: Log, orders: Orders, metrics: Metrics, watchdog: Watchdog) -> int:
    _sleep(settings.initial_delay, orders, watchdog)
    if orders.stopping:
        return GOOD_ORDER
    try:
        with orders.ending_at_once():
            transport = connect(user_agent=USER_AGENT, kubeconfig=settings.kubeconfig, context=settings.context)
        api = KubeApi(transport, denials=EarlyDenials(time.monotonic, patient=True))
        cluster = {"server": transport.server, "context": settings.context, "version": transport.server_version or None}
        Daemon(settings, api, log=log, metrics=metrics, watchdog=watchdog, orders=orders, cluster=cluster).run()
    except StoppedAtStartError:
        log.info("stopped before it has begun")
    except ConfigurationError as error:
        log.error(str(error))
        return CONFIGURATION
    except TEMPORARY as error:
        log.error(str(error))
        return API
    return GOOD_ORDER


def _sleep(seconds: int, orders: Orders, watchdog: Watchdog) -> None:
    for _second in range(seconds):
        if orders.stopping:
            return
        time.sleep(1)
        watchdog.beat()
