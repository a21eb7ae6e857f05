# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rescuer needs no writable folder, as in the Deployment in deploy/, whose root file system is read-only."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from lab.cluster import Cluster
from tests.integration.cluster_identity import identity_of
from tests.integration.modules.module_process import COLLECTIONS
from tests.integration.rescuer.test_start import in_base
from tests.integration.workloads import wait_until

# An interpreter in which every file and folder is read-only, also for root, and the pod's service account is in a folder of the test.
PROGRAM = """
import errno, os, pathlib, sys

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {"os.mkdir", "os.remove", "os.rename", "os.link", "os.symlink", "os.truncate", "tempfile.mkstemp", "tempfile.mkdtemp"}

def refuse(event, arguments):
    if event in CHANGES or (event == "open" and isinstance(arguments[0], (str, bytes)) and arguments[2] & WRITING):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), arguments[0])

sys.dont_write_bytecode = True
sys.addaudithook(refuse)

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config import kubeconfig_settings
from ansible_collections.onprem.kube_scheduling.services.rescuer.cli import main

kubeconfig_settings.SERVICE_ACCOUNT = pathlib.Path(sys.argv[1])
sys.exit(main(sys.argv[2:], {}))
"""


def test_the_container_of_the_base_has_no_writable_folder() -> None:
    (deployment,) = in_base("rescuer-deployment")
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert [volume for volume in pod["volumes"] if "configMap" not in volume] == []
    assert [mount for mount in container["volumeMounts"] if not mount["readOnly"]] == []


@pytest.mark.parametrize("login", ["service account of the pod", "token in a kubeconfig", "client certificate in a kubeconfig"])
def test_the_rescuer_starts_without_a_writable_folder(cluster: Cluster, tmp_path: Path, login: str) -> None:
    kubeconfig = cluster.kubeconfig if "certificate" in login else cluster.service_account("read-only", cluster_role="cluster-admin")
    folder, address = tmp_path / "account", urlsplit(cluster.server)
    environment = {"PYTHONPATH": str(COLLECTIONS), "TMPDIR": "/nowhere"}
    flags = [f"--kubeconfig={kubeconfig}"]
    if login == "service account of the pod":
        _write_service_account(yaml.safe_load(kubeconfig.read_text()), folder)
        environment |= {"KUBERNETES_SERVICE_HOST": str(address.hostname), "KUBERNETES_SERVICE_PORT": str(address.port)}
        flags = []
    log = tmp_path / "log"
    with log.open("wb") as stream:
        command = [sys.executable, "-c", PROGRAM, str(folder), "--dry-run", "--listen-address=", *flags]
        process = subprocess.Popen(command, stderr=stream, env=environment, cwd="/")
    try:
        wait_until(lambda: process.poll() is not None or "watching the cluster" in log.read_text(), what="the start")
        assert process.poll() is None, log.read_text()
        process.terminate()
        assert process.wait(60) == 0
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        assert {line["level"] for line in lines} == {"info"}, lines
        name, context, server = identity_of(cluster).values()
        expected = (server, None, server) if login == "service account of the pod" else (name, context, server)
        assert tuple(lines[0].get(field) for field in ("cluster", "context", "server")) == expected, lines[0]
    finally:
        process.kill()


def _write_service_account(kubeconfig: dict[str, list[dict[str, dict[str, str]]]], folder: Path) -> None:
    folder.mkdir()
    (folder / "token").write_text(kubeconfig["users"][0]["user"]["token"])
    (folder / "ca.crt").write_bytes(base64.b64decode(kubeconfig["clusters"][0]["cluster"]["certificate-authority-data"]))
