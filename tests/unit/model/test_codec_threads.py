# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Decoders are made by several threads at a time: the cache follows each resource with a thread of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tools.paths import COLLECTIONS

PROGRAM = """
import sys, threading
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model import codec
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api import (
    coordination, device, meta, namespace, node, pod, policy, storage, volume, workload
)

sys.setswitchinterval(1e-6)
files = coordination, device, meta, namespace, node, pod, policy, storage, volume, workload
kinds = [kind for file in files for kind in vars(file).values()
         if isinstance(kind, type) and issubclass(kind, codec.Struct) and kind is not codec.Struct]
page = b'{"items": [{"metadata": {"name": "a", "ownerReferences": [{"kind": "b"}]}, "spec": {}, "status": {}}]}'
start = threading.Barrier(8)

def decode(number):
    start.wait()
    for kind in kinds[number:] + kinds[:number]:
        try:
            codec.decode_items(kind, page)
        except codec.DecodeError:
            pass

threads = [threading.Thread(target=decode, args=(7 * number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@pytest.mark.parametrize("_run", range(8))
def test_threads_may_read_everything_at_the_same_time(_run: int) -> None:
    command, env = [sys.executable, "-X", "faulthandler", "-c", PROGRAM], {"PYTHONPATH": str(COLLECTIONS)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
