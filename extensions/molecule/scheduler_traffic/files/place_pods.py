# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Create pods of SCHEDULER one by one until some in a row are on NODE, then COUNT together. Print their nodes, and who bound them.

Usage: place_pods.py KUBECONFIG SCHEDULER NODE COUNT
"""

from __future__ import annotations

import json
import sys
import time

from kubernetes import client, config

NAMESPACE = "default"
NAME = "traffic-pod"
FOLLOWED_WITHIN_S = 90.0
BOUND_WITHIN_S = 60.0
IN_A_ROW = 9
PAUSE_S = 1.0
"""While the rates are nearly equal, another score can prefer the node. So a row takes longer than the window, a scrape and a refresh."""


def pod(name: str, scheduler: str) -> dict[str, object]:
    container = {"name": "main", "image": "none", "imagePullPolicy": "Never", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}
    spec = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"metadata": {"name": name, "labels": {"app": NAME}}, "spec": spec}


def main(kubeconfig: str, scheduler: str, node: str, count: str) -> None:
    config.load_kube_config(kubeconfig)
    api = client.CoreV1Api()

    def place(name: str) -> None:
        api.create_namespaced_pod(NAMESPACE, pod(name, scheduler))

    def node_of(name: str) -> str:
        end = time.monotonic() + BOUND_WITHIN_S
        while not (found := api.read_namespaced_pod(name, NAMESPACE).spec.node_name):
            if time.monotonic() > end:
                raise SystemExit(f"Pod {name}: no node after {BOUND_WITHIN_S:.0f} s")
            time.sleep(0.1)
        return str(found)

    def bound_by(name: str) -> str:
        end = time.monotonic() + BOUND_WITHIN_S
        selector = f"involvedObject.name={name},reason=Scheduled"
        while not (found := api.list_namespaced_event(NAMESPACE, field_selector=selector).items):
            if time.monotonic() > end:
                raise SystemExit(f"Pod {name}: no event of its binding after {BOUND_WITHIN_S:.0f} s")
            time.sleep(0.1)
        return f"{found[0].reporting_component}: {found[0].message.partition(NAMESPACE)[0].strip()}"

    run = f"{NAME}-{time.time_ns():x}"
    begin = time.monotonic()
    tried = in_a_row = 0
    try:
        while in_a_row < IN_A_ROW and time.monotonic() - begin < FOLLOWED_WITHIN_S:
            tried += 1
            place(f"{run}-first-{tried}")
            in_a_row = in_a_row + 1 if node_of(f"{run}-first-{tried}") == node else 0
            api.delete_namespaced_pod(f"{run}-first-{tried}", NAMESPACE, grace_period_seconds=0)
            time.sleep(PAUSE_S)
        seconds = round(time.monotonic() - begin, 1)
        names = [f"{run}-{number}" for number in range(int(count))]
        for name in names:
            place(name)
        nodes = [node_of(name) for name in names]
        by = sorted({bound_by(name) for name in names})
        print(json.dumps({"seconds": seconds, "tried": tried, "nodes": nodes, "by": by}))
    finally:
        api.delete_collection_namespaced_pod(NAMESPACE, label_selector=f"app={NAME}", grace_period_seconds=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
