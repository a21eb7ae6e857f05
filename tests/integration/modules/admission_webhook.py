# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real admission webhook that a test steers: it may refuse a write, or do something else while the write is in flight."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import trustme

from lab.cluster import Cluster
from tests.integration.workloads import OUTCOME, RESTARTED_AT

Review = dict[str, Any]
Verdict = str | None  # the reason of a refusal, or None to allow the request


@contextlib.contextmanager
def admission_webhook(cluster: Cluster, name: str, namespace: str, decide: Callable[[Review], Verdict]) -> Iterator[None]:
    """While this block runs, ``decide`` sees each write of a Deployment or StatefulSet, and each eviction, in ``namespace``."""
    authority = trustme.CA()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(decide))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    client = {"url": f"https://127.0.0.1:{server.server_port}/", "caBundle": base64.b64encode(authority.cert_pem.bytes()).decode()}
    cluster.apply(configuration(name, namespace, client, WORKLOADS, EVICTIONS))
    try:
        _wait_until_asked(cluster, namespace)
        yield
    finally:
        cluster.kubectl("delete", "validatingwebhookconfiguration", name)
        server.shutdown()
        server.server_close()


def is_restart(review: Review) -> bool:
    """Return whether the write restarts the workload."""
    old, new = (
        (review[side] or {}).get("spec", {}).get("template", {}).get("metadata", {}).get("annotations", {}).get(RESTARTED_AT)
        for side in ("oldObject", "object")
    )
    return old != new


def is_remembering(review: Review) -> bool:
    """Return whether the write changes the outcome that is stored on the workload, and restarts nothing."""
    old, new = (((review[side] or {}).get("metadata", {}).get("annotations") or {}).get(OUTCOME) for side in ("oldObject", "object"))
    return old != new and not is_restart(review)


def is_eviction(review: Review) -> bool:
    """The request evicts a pod and is no dry run."""
    return bool(review.get("subResource") == "eviction" and not review.get("dryRun"))


WORKLOADS = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["UPDATE", "CREATE"], "resources": ["deployments", "statefulsets"]}
EVICTIONS = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods/eviction"]}


def configuration(name: str, namespace: str, client: dict[str, str], *rules: dict[str, Any]) -> dict[str, Any]:
    """A webhook without which nothing of ``rules`` is admitted in ``namespace``; ``client``: where it is."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [
            {
                "name": f"{name}.tests.onprem.example",
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 30,
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
                "clientConfig": client,
                "rules": list(rules),
            }
        ],
    }


PROBE = "webhook-probe"


def _wait_until_asked(cluster: Cluster, namespace: str) -> None:
    """The API server needs a moment to learn of a webhook: probe with a dry run until ours has answered."""
    for _attempt in range(200):
        try:
            cluster.kubectl("create", "deployment", PROBE, "-n", namespace, "--image=x", "--dry-run=server")
        except Exception as error:
            if PROBE in str(error):
                return
            raise
    raise AssertionError("the webhook was never asked")


def _handler(decide: Callable[[Review], Verdict]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            request = review["request"]
            refusal = PROBE if request.get("name") == PROBE else decide(request)
            answer: dict[str, Any] = {"uid": request["uid"], "allowed": refusal is None}
            if refusal is not None:
                answer["status"] = {"message": refusal, "code": 403}
            body = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):  # the API server may have been killed meanwhile
                self.wfile.write(body)

        def log_message(self, *_args: Any) -> None:
            pass

    return Handler
