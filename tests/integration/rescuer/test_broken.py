# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of the program itself end the process, so that it is started again, and the other replica leads immediately."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from lab.cluster import Cluster
from tests.integration.modules.module_process import COLLECTIONS
from tests.integration.rescue.scene import LEASE, SYSTEM
from tests.integration.workloads import wait_until

# What cannot be provoked from outside: a function of the program that fails from its second call on, and watches that fail at a change.
BROKEN = """
import sys
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.{module} import {owner} as owner
from ansible_collections.onprem.kube_scheduling.services.rescuer.cli import main

working, calls = owner.{function}, []

def broken(*args, **kwargs):
    calls.append(1)
    if len(calls) > 1:
        raise ZeroDivisionError("a defect")
    return working(*args, **kwargs)

owner.{function} = broken
sys.exit(main(sys.argv[1:], {{}}))
"""

BROKEN_WATCHES = """
import sys
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.cache.reflector import Reflector
from ansible_collections.onprem.kube_scheduling.services.rescuer.cli import main

Reflector._apply_event = lambda self, change, item: 1 / 0
sys.exit(main(sys.argv[1:], {}))
"""


@pytest.mark.parametrize(
    ("module", "owner", "function", "says"),
    [
        ("rescue.controller", "RescueController", "reconcile", "ended by an error: a defect"),
        ("rescue.environment", "ClusterInformer", "snapshot", "ended by an error: a defect"),
        (
            "common.leader_lease",
            "LeaderLease",
            "_write",
            "ended by an error: the thread lease kube-scheduling-rescue has ended unexpectedly",
        ),
    ],
)
def test_an_error_ends_the_process(cluster: Cluster, tmp_path: Path, module: str, owner: str, function: str, says: str) -> None:
    code, output = run(cluster, BROKEN.format(module=module, owner=owner, function=function), tmp_path)
    assert code == 1 and says in output and "ZeroDivisionError: a defect" in output
    assert not cluster.get(LEASE)["spec"].get("holderIdentity"), f"the Lease in {SYSTEM} is still held"


def test_a_watch_that_dies_ends_the_process(cluster: Cluster, tmp_path: Path) -> None:
    process = begin(cluster, BROKEN_WATCHES, tmp_path)
    numbers = itertools.count()

    def has_ended_of_a_change() -> bool:
        labels = {"n": str(next(numbers))}
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "stirred", "labels": labels}})
        return process.poll() is not None

    try:
        wait_until(has_ended_of_a_change, what="the end")
    finally:
        process.kill()
        cluster.api.delete("/api/v1/namespaces/stirred")
    assert process.wait() == 1
    assert "namespaces are not watched any more: ZeroDivisionError" in (tmp_path / "log").read_text()


def run(cluster: Cluster, program: str, folder: Path) -> tuple[int, str]:
    process = begin(cluster, program, folder)
    try:
        return process.wait(60), (folder / "log").read_text()
    finally:
        process.kill()


def begin(cluster: Cluster, program: str, folder: Path) -> subprocess.Popen[bytes]:
    flags = ("--listen-address=", "--housekeeping-interval=1s", f"--kubeconfig={cluster.kubeconfig}")
    with (folder / "log").open("wb") as stream:
        return subprocess.Popen([sys.executable, "-c", program, *flags], stderr=stream, env={"PYTHONPATH": str(COLLECTIONS)})
