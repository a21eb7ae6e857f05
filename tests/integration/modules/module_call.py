# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the main function of a module in this process. The result is the JSON that the module prints, as with a process of its own.

A module takes its options, its output, its warnings and its environment from global state. Each run has its own, and afterwards the state
is as before. Threads of the module end with the run.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import locale
import os
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
from ansible.module_utils import basic
from ansible.module_utils.common import warnings

THREADS_END_AFTER_S = 10


def call_module(path: str, arguments: str, environment: dict[str, str]) -> str:
    """Return the standard output of the module with this import path, for the standard input and environment of a process."""
    module = importlib.import_module(path)
    with _own_state(arguments.encode(), environment) as output, _own_threads(), pytest.raises(SystemExit):
        module.main()
    return output.getvalue()


@contextlib.contextmanager
def _own_state(arguments: bytes, environment: dict[str, str]) -> Iterator[io.StringIO]:
    locales = locale.setlocale(locale.LC_ALL)
    with pytest.MonkeyPatch.context() as patches, contextlib.redirect_stdout(io.StringIO()) as output:
        for name in os.environ.keys() - environment.keys():
            patches.delenv(name)
        for name, value in environment.items():
            patches.setenv(name, value)
        patches.setattr(basic, "_ANSIBLE_ARGS", arguments)
        # ansible-core 2.18 has no profiles, and modules on the controller do not differ from others.
        patches.setattr(basic, "_ANSIBLE_PROFILE", "legacy", raising=False)
        internal = sys.modules.get("ansible.module_utils._internal")
        if internal is not None:
            patches.setattr(internal, "is_controller", False)
        for name in ("_global_warnings", "_global_deprecations"):
            patches.setattr(warnings, name, type(getattr(warnings, name))())
        try:
            yield output
        finally:
            locale.setlocale(locale.LC_ALL, locales)


@contextlib.contextmanager
def _own_threads() -> Iterator[None]:
    """Wait for the threads that the block starts in this thread, or that such threads start. A process would end them."""
    started: list[threading.Thread] = []
    start: Callable[[threading.Thread], None] = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        if threading.current_thread() in (runner, *started):
            started.append(thread)
        start(thread)

    runner = threading.current_thread()
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(threading.Thread, "start", noted)
        yield
    for thread in started:
        thread.join(THREADS_END_AFTER_S)
    left = [thread.name for thread in started if thread.is_alive()]
    assert left == [], f"threads of the module are still running: {left}"
