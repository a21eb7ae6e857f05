# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""One more real kube-scheduler beside the cluster's own, with any configuration.

It schedules the pods whose schedulerName is a profile of its configuration.
"""

from __future__ import annotations

import string
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab.cluster import Cluster
from lab.errors import LabError
from lab.layout import SOURCES

STOP_TIMEOUT_S = 20.0
LOG_FILE = "scheduler.log"
LOG_SCORES = ("-v=2", "--vmodule=schedule_one=10")
"""Flags with which the scheduler writes the score of each plugin for each node into its log."""

Configuration = dict[str, Any]


@dataclass(frozen=True)
class SecondScheduler:
    """A running kube-scheduler. ``log_file`` has what it writes."""

    process: subprocess.Popen[bytes]
    log_file: Path

    @property
    def log(self) -> str:
        """Return the log up to now."""
        return self.log_file.read_text(errors="replace")

    def is_running(self) -> bool:
        return self.process.poll() is None


def render(template: str, **values: str) -> Configuration:
    """Return the configuration of ``lab/schedulers/TEMPLATE.yaml`` with the values of its ``${NAME}`` inserted, such as URLs.

    Raises LabError if a value is missing.
    """
    text = (SOURCES / "schedulers" / f"{template}.yaml").read_text()
    try:
        filled = string.Template(text).substitute(values)
    except KeyError as error:
        raise LabError(f"scheduler configuration {template}: a value for {error} is missing, give it as a keyword") from error
    configuration: Configuration = yaml.safe_load(filled)
    return configuration


@contextmanager
def second_scheduler(
    cluster: Cluster, configuration: Configuration, folder: Path, *, flags: Sequence[str] = ()
) -> Iterator[SecondScheduler]:
    """Run a scheduler that uses the cluster, and end it afterwards. Its configuration and its log are in ``folder``.

    The access to the cluster is added to the configuration, and there is no leader election.
    """
    file, log_file = folder / "scheduler.yaml", folder / LOG_FILE
    file.write_text(yaml.safe_dump(_connected(configuration, cluster.kubeconfig)))
    command = [str(cluster.binary("kube-scheduler")), "--config", str(file), "--secure-port", "0", *flags]
    with log_file.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            yield SecondScheduler(process, log_file)
        finally:
            process.terminate()
            process.wait(timeout=STOP_TIMEOUT_S)


def _connected(configuration: Configuration, kubeconfig: Path) -> Configuration:
    connection = {"qps": 10000, "burst": 20000} | configuration.get("clientConnection", {})
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **configuration,
        "leaderElection": {"leaderElect": False},
        "clientConnection": connection | {"kubeconfig": str(kubeconfig)},
    }
