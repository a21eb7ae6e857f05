# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The real programs of the role extended_scheduler beside its simulated pods, with the files of its ConfigMap and its service account."""

from __future__ import annotations

import base64
import contextlib
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from lab import ports
from lab.cluster import Cluster
from tests.integration.extender.extender_process import Extender
from tests.integration.workloads import wait_until

Json = dict[str, Any]

NAMESPACE, NAME = "kube-system", "kube-scheduling-scheduler"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{NAME}"
EXTENDER = f"{NAME}-extender"
TOKEN = f"/api/v1/namespaces/{NAMESPACE}/secrets/{EXTENDER}"
USER = f"system:serviceaccount:{NAMESPACE}:{NAME}"
EXTENDER_USER = f"system:serviceaccount:{NAMESPACE}:{EXTENDER}"
STOP_TIMEOUT_S = 20.0


@dataclass
class Programs:
    """The extenders in the order of their ports, and the scheduler."""

    extenders: list[Extender]
    scheduler: subprocess.Popen[bytes]
    log_file: Path
    health_port: int

    @property
    def log(self) -> str:
        """Return what the scheduler has logged."""
        return self.log_file.read_text(errors="replace")


def data_of(cluster: Cluster) -> dict[str, str]:
    """Return the files of the ConfigMap that the Deployment has now."""
    (volume,) = (one for one in cluster.get(DEPLOYMENT)["spec"]["template"]["spec"]["volumes"] if one["name"] == "settings")
    data: dict[str, str] = cluster.get(f"/api/v1/namespaces/{NAMESPACE}/configmaps/{volume['configMap']['name']}")["data"]
    return data


def extender_kubeconfig(cluster: Cluster, folder: Path) -> Path:
    """Write a kubeconfig with the token that Kubernetes has written into the Secret of the extenders."""
    wait_until(lambda: "token" in (cluster.get(TOKEN).get("data") or {}), what="the token of the extenders")
    config: Json = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": base64.b64decode(cluster.get(TOKEN)["data"]["token"]).decode()}
    file = folder / "extender.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


@contextlib.contextmanager
def programs(cluster: Cluster, folder: Path) -> Iterator[Programs]:
    """Run what the containers of the pod run. Only the addresses and the kubeconfig are others than in the pod."""
    kubeconfig = str(cluster.service_account(NAME, namespace=NAMESPACE, cluster_role=None))
    of_extender = extender_kubeconfig(cluster, folder)
    data = data_of(cluster)
    configuration: Json = yaml.safe_load(data["scheduler.yaml"])
    extenders: list[Extender] = []
    with contextlib.ExitStack() as running:
        for name in sorted(set(data) - {"scheduler.yaml"}):
            settings: Json = yaml.safe_load(data[name])
            listen = settings.pop("listen")
            del settings["status_address"]
            if "kubernetes" in settings.get("sources", {}):
                settings["sources"]["kubernetes"] = {"kubeconfig": str(of_extender)}
            own = folder / name.removesuffix(".yaml")
            own.mkdir()
            extender = Extender(own, settings)
            extender.start()
            running.callback(extender.kill)
            extenders.append(extender)
            for entry in configuration["extenders"]:
                entry["urlPrefix"] = entry["urlPrefix"].replace(f"http://{listen}", extender.url)
        yield running.enter_context(
            _scheduler(cluster, folder, configuration | {"clientConnection": {"kubeconfig": kubeconfig}}, extenders)
        )


@contextlib.contextmanager
def kubelet(cluster: Cluster, folder: Path) -> Iterator[None]:
    """Start the real programs when the Deployment exists, as the kubelet of a node does for the pods."""
    ended, errors = threading.Event(), list[Exception]()

    def run() -> None:
        try:
            while cluster.api.find(DEPLOYMENT) is None:
                if ended.wait(0.2):
                    return
            with programs(cluster, folder):
                ended.wait()
        except Exception as error:  # the test shows it
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not errors, errors


@contextlib.contextmanager
def _scheduler(cluster: Cluster, folder: Path, configuration: Json, extenders: list[Extender]) -> Iterator[Programs]:
    file, log_file = folder / "scheduler.yaml", folder / "scheduler.log"
    file.write_text(yaml.safe_dump(configuration))
    (port,) = ports.reserve(folder / "scheduler.yaml", 1)
    kubeconfig = configuration["clientConnection"]["kubeconfig"]
    command = [str(cluster.binary("kube-scheduler")), "--config", str(file), "--secure-port", str(port)]
    # In a pod, both are the service account of the pod.
    command += [f"--authentication-kubeconfig={kubeconfig}", f"--authorization-kubeconfig={kubeconfig}"]
    with log_file.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: _is_held(cluster) or process.poll() is not None, timeout_s=60, what="the Lease of the scheduler")
            assert process.poll() is None, log_file.read_text()
            yield Programs(extenders, process, log_file, port)
        finally:
            process.terminate()
            process.wait(timeout=STOP_TIMEOUT_S)


def _is_held(cluster: Cluster) -> bool:
    found = cluster.api.find(LEASE)
    return found is not None and bool(found["spec"].get("holderIdentity"))
