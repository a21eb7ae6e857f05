# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The commands of README for a first check work, and their user may only read."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import yaml

from lab.audit import COMPLETE, STARTED
from lab.cluster import Cluster
from lab.layout import REPOSITORY
from lab.pytest_fixtures import NamespaceFactory
from tests.integration.workloads import deployment, pile_up

README = (REPOSITORY / "README.md").read_text()
SECTION = README[README.index("\n## Check your own cluster in two minutes\n") :].split("\n## ")[1]
COMMANDS = re.findall(r"test_readme\.py -->\n```sh\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)
REMOVALS = re.findall(r"`(kubectl delete [^`]+)`", SECTION)
USER = "system:serviceaccount:kube-system:spread-check"


def test_the_commands_of_a_first_check_find_collapsed_workloads_and_only_read(
    lab_cluster: Cluster, namespaces: NamespaceFactory, tmp_path: Path
) -> None:
    (commands,) = COMMANDS
    cluster, namespace = lab_cluster, namespaces("readme")
    pile_up(cluster, deployment(namespace, "web", 3))
    before = cluster.audit().mark()

    try:
        done = _shell(cluster, commands, tmp_path)
    finally:
        removed = [_shell(cluster, removal, tmp_path) for removal in REMOVALS]

    assert done.returncode == 0, done.stdout + done.stderr
    result = yaml.safe_load(done.stdout.partition("=> ")[2])
    assert {"kind": "Deployment", "namespace": namespace, "name": "web"} in result["restartable"], done.stdout
    requests = list(cluster.audit().events(since=before, user=USER, stages=(STARTED, COMPLETE)))
    assert {event.verb for event in requests} <= {"get", "list"} and any(event.resource == "pods" for event in requests)
    assert len(removed) == 2 and all(step.returncode == 0 for step in removed)


def _shell(cluster: Cluster, commands: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("K8S_AUTH_", "KUBE", "ANSIBLE_"))}
    environment |= {
        "KUBECONFIG": str(cluster.kubeconfig),
        "PATH": f"{cluster.binary('kubectl').parent}:{os.environ['PATH']}",
        "TMPDIR": str(folder),
    }
    command = ["bash", "-eu", "-o", "pipefail", "-c", commands]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True)
