# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep the CPUs awake while latencies are measured.

A request and its answer follow each other, so that each CPU has nothing to do for half of the time. The CPU of a virtual machine is then
halted, and the host needs up to 50 µs to start it again. That is more time than an answer takes, and differs from minute to minute. A
process with the policy SCHED_IDLE runs only if no other process wants the CPU (sched(7)).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

SPIN = "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"


@contextmanager
def awake_cpus() -> Iterator[None]:
    """Keep as many CPUs busy as the machine has, with processes that give way to all others."""
    with ExitStack() as stack:
        for _cpu in range(os.cpu_count() or 1):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", SPIN]))
            stack.callback(process.kill)
        yield
