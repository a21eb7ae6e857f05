# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of k8s_critical_rescue: its function or the module in this process, or the module as a separate process."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client import open_transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.result import rescue_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.run import run_rescue
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueRequest, rescue_options

from lab.cluster import Cluster
from tests.integration.modules.module_process import result_of as result_of_process
from tests.integration.modules.module_process import run_module, start_module

Json = dict[str, Any]

MODULE = "k8s_critical_rescue"
QUICK = {"settle_time": 0, "wait_timeout": 30}
"""The scheduler of these clusters does not preempt, so a rescue need not wait for it."""


@dataclass(frozen=True)
class Rescues:
    """Rescues on one cluster, as its administrator or as the user of ``kubeconfig``.

    ``warnings`` are those of the last run in this process.
    """

    cluster: Cluster
    kubeconfig: Path | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def _user(self) -> str:
        return str(self.kubeconfig or self.cluster.kubeconfig)

    def run(
        self,
        *,
        name: str = "",
        label_selector: str = "",
        state: str = "rescued",
        wait: bool = True,
        check_mode: bool = False,
        diff: bool = False,
        **options: Any,
    ) -> Json:
        """One run without Ansible; the module's result."""
        api = KubeApi(open_transport.open_transport(kubeconfig=self._user, user_agent=f"onprem.kube_scheduling/{MODULE}"))
        request = RescueRequest(
            rescue_options({**QUICK, **options}), name=name, label_selectors=(label_selector,), state=state, wait=wait, dry_run=check_mode
        )
        outcome = run_rescue(api, request)
        self.warnings[:] = outcome.warnings
        result = rescue_result(outcome, named=bool(name), diff=diff)
        check_reasons(result)
        return result

    def one(self, name: str, **options: Any) -> Json:
        """The result of one pod."""
        (row,) = self.run(name=name, **options)["pods"]
        found: Json = row
        print(found)  # pytest shows it if the test fails
        return found

    def module(self, *, check_mode: bool = False, diff: bool = False, **params: Any) -> Json:
        """One run of the module in this process."""
        result = run_module(MODULE, {"kubeconfig": self._user, **QUICK, **params}, check_mode=check_mode, diff=diff)
        check_reasons(result)
        return result

    def start(self, *, check_mode: bool = False, diff: bool = False, **params: Any) -> subprocess.Popen[str]:
        """The module as a process of its own."""
        return start_module(MODULE, {"kubeconfig": self._user, **QUICK, **params}, check_mode=check_mode, diff=diff)

    def result(self, process: subprocess.Popen[str]) -> Json:
        result = result_of_process(process)
        check_reasons(result)
        return result


def check_reasons(result: Json) -> None:
    """Check every reason of the result: it is a code, and it has a message."""
    rows = result.get("pods", [])
    entries = [*rows, *result.get("skipped_objects", []), *(one for row in rows for one in (*row["victims"], *row["blockers"]))]
    for entry in entries:
        assert re.fullmatch("[a-z_]+", entry["reason"]) and entry["message"].strip() and "text" not in entry, entry


def victims(row: Json) -> set[str]:
    """The apps whose pods were evicted, or would be."""
    return {victim["name"].rpartition("-")[0] for victim in row["victims"]}
