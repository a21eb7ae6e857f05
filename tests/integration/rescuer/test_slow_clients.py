# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Clients that never finish their requests take neither the probes nor the memory of the rescuer."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.services.common.http.limits import MAX_OF_ADDRESS

from tests.integration.rescuer.conftest import Start
from tests.integration.workloads import wait_until
from tests.unit.services.common.crowd import crowd_of

CLIENTS = 1000
FEW = 20
"""Threads and descriptors that a running daemon may have more than before, whatever the clients do."""

MEMORY_MB = 40


def test_probes_and_scrapes_are_answered_beside_1000_slow_clients_and_memory_threads_and_files_stay_bounded(daemons: Start) -> None:
    daemon = daemons("--dry-run")
    threads, files, memory_mb = daemon.threads(), daemon.open_files(), daemon.resident_mb()
    with crowd_of(daemon.port, CLIENTS) as crowd:
        for _ in range(20):
            assert daemon.ask("/healthz")[0] == 200
            assert daemon.ask("/readyz")[0] == 200
            assert daemon.metric("leader") == 0
        assert daemon.threads() <= threads + FEW
        assert daemon.open_files() <= files + MAX_OF_ADDRESS + FEW
        assert daemon.resident_mb() <= memory_mb + MEMORY_MB
        wait_until(lambda: crowd.connected == 0, timeout_s=60, what="all slow clients are closed")
    wait_until(lambda: daemon.open_files() <= files + FEW, what="no connection is left")
    assert daemon.ask("/healthz")[0] == 200
