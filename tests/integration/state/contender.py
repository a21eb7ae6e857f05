# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A process that wants a Lease again and again, and writes down when it held it by the clock that all processes share.

Started with kubeconfig, namespace, identity, duration in seconds, seconds to run, file; lines of the file are `begin end`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import KubeError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.open_transport import open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.common.leader_lease import LeaderLease

SAMPLE_S = 0.005
HOLD_S = 10.0
"""Longer than the Lease lasts, so that a process that was frozen meanwhile still believes to hold it, if it is not careful."""
AWAY_S = 3.0
"""Longer than others wait between two tries, so that one of them gets it."""


def main(kubeconfig: str, namespace: str, identity: str, duration_s: int, run_s: float, file: Path) -> None:
    api = KubeApi(open_transport(user_agent=identity, kubeconfig=kubeconfig))
    lease = LeaderLease(api, identity, namespace=namespace, duration_s=duration_s)
    end_s = time.monotonic() + run_s
    while time.monotonic() < end_s:
        try:
            acquired = lease.acquire(1.0)
        except KubeError:
            continue
        if not acquired:
            continue
        begin_s = last_s = None
        until_s = time.monotonic() + HOLD_S
        while time.monotonic() < until_s:
            now_s = time.monotonic()
            if not lease.held:
                break
            begin_s, last_s = begin_s or now_s, now_s
            time.sleep(SAMPLE_S)
        if begin_s is not None:
            with file.open("a") as output:
                output.write(f"{begin_s} {last_s}\n")
        lease.release()
        time.sleep(AWAY_S)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]), Path(sys.argv[6]))
