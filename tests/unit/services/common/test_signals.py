# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Signals and threads that have died reach the loop."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest
from ansible_collections.onprem.kube_scheduling.services.common.signals import ShutdownSignal, StoppedAtStartError, ThreadDiedError


@pytest.fixture
def shutdown() -> Iterator[ShutdownSignal]:
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    hook = threading.excepthook
    made = ShutdownSignal()
    made.install()
    yield made
    threading.excepthook = hook
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_for_the_end_and_a_second_one_for_haste(shutdown: ShutdownSignal, number: signal.Signals) -> None:
    assert not shutdown.stopping
    os.kill(os.getpid(), number)
    assert (shutdown.stopping, shutdown.force) == (True, False)
    os.kill(os.getpid(), number)
    assert shutdown.force


def test_a_thread_that_dies_is_not_overlooked(shutdown: ShutdownSignal) -> None:
    shutdown.raise_thread_errors()

    def die() -> None:
        raise ValueError("broken")

    thread = threading.Thread(target=die, name="worker 7")
    thread.start()
    thread.join()
    with pytest.raises(ThreadDiedError, match="the thread worker 7 has ended unexpectedly") as caught:
        shutdown.raise_thread_errors()
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_start_immediately_and_is_only_noted_afterwards(shutdown: ShutdownSignal, number: signal.Signals) -> None:
    with pytest.raises(StoppedAtStartError), shutdown.stop_raises():
        threading.Timer(0.1, lambda: os.kill(os.getpid(), number)).start()
        time.sleep(60)
        pytest.fail("the signal has not ended the wait")
    assert shutdown.stopping and not shutdown.force
    with pytest.raises(StoppedAtStartError), shutdown.stop_raises():
        pytest.fail("the end was asked for before")
    os.kill(os.getpid(), number)
    assert shutdown.force
