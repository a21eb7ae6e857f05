# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The algorithm of the script that this collection takes over from, on a sample of Deployments.

``python -m tests.bench.original KUBECONFIG`` prints what it took as JSON: ``seconds`` for ``deployments``. For each
Deployment it reads the Deployment, lists all pods of the namespace through the client's typed models, takes those whose name contains
the Deployment's, and counts the nodes they are on.
"""

from __future__ import annotations

import json
import sys
import time

from kubernetes import client, config

SAMPLE = 10


def main(kubeconfig: str) -> None:
    """Read the first Deployments, each of another namespace."""
    config.load_kube_config(kubeconfig)
    core, apps = client.CoreV1Api(), client.AppsV1Api()
    started = time.perf_counter()
    for number in range(SAMPLE):
        namespace, name = f"team-{number}", f"app-{number}"
        deployment = apps.read_namespaced_deployment(name, namespace)
        pods = core.list_namespaced_pod(namespace).items
        nodes = {pod.spec.node_name for pod in pods if name in pod.metadata.name}
        if deployment.spec.replicas < 2 or not nodes:
            raise SystemExit(f"Deployment {namespace}/{name} has no replicas to read")
    print(json.dumps({"deployments": SAMPLE, "seconds": time.perf_counter() - started}))


if __name__ == "__main__":
    main(sys.argv[1])
