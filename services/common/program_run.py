# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The run of a program that reads settings: its errors, its log, its signals and its exit code."""

from __future__ import annotations

import sys
import typing as t
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry

from ...plugins.module_utils.kube.client.errors import ConfigurationError
from ...plugins.module_utils.model.option_values import OptionError
from .addresses import Address
from .health import Health
from .http.endpoints import Endpoints
from .leadership import TEMPORARY
from .log import Log, set_up_log
from .settings import CommonSettings, Program
from .signals import ShutdownSignal, StoppedAtStartError
from .typed_settings import SettingsError

GOOD_ORDER, FAILED, CONFIGURATION, API = 0, 1, 2, 3
"""The exit codes."""


S = t.TypeVar("S", bound=CommonSettings)


def run_program(program: Program, read_settings: Callable[[], S], work: Callable[[S, Log, ShutdownSignal], int]) -> int:
    """Read the settings and do the work with them. Return the exit code."""
    try:
        settings = read_settings()
    except SettingsError as error:
        for one in error.errors:
            print(f"{program.name}: {one}", file=sys.stderr)
        return CONFIGURATION
    if settings.check_config:
        print("the settings can be used")
        return GOOD_ORDER
    log = set_up_log(program.name, form=settings.log_format, level=settings.log_level)
    shutdown = ShutdownSignal()
    shutdown.install()
    try:
        return work(settings, log, shutdown)
    except StoppedAtStartError:
        log.info("stopped before it has begun")
        return GOOD_ORDER
    except (ConfigurationError, OptionError) as error:
        log.error(str(error))
        return CONFIGURATION
    except TEMPORARY as error:
        log.error(str(error))
        return API
    # The last line is the reason for the end of the process. The pod's status or the Job shows it.
    except Exception as error:
        log.error(f"ended by an error: {error}", cause=error)
        return FAILED


@contextmanager
def serving(address: Address | None, registry: CollectorRegistry, health: Health, log: Log) -> Iterator[None]:
    """Serve metrics and health while the block runs. Raises ConfigurationError if it cannot listen on the address."""
    if address is None:
        yield
        return
    try:
        endpoints = Endpoints(address, registry, health)
    except (OSError, UnicodeError) as error:
        raise ConfigurationError(f"listen_address is {address}: {error}") from error
    log.info("serving metrics and health", address=str(endpoints.address))
    try:
        yield
    finally:
        endpoints.close()
