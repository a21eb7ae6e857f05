# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""An API server with nodes and pods: lists, and watches that show the changes that a test makes."""

from __future__ import annotations

import json
import queue
import threading
import typing as t
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.connection_settings import ConnectionSettings
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.connection import Connection
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.transport import Transport

Json = dict[str, t.Any]
END = None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: KubeServer

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        plural = parts.path.rpartition("/")[2]
        if plural not in ("nodes", "pods"):
            return self._reply({"gitVersion": "v1.36.3"})
        if "watch" in parse_qs(parts.query):
            return self._watch(plural)
        server = self.server
        with server.lock:
            items = [item for item in server.objects[plural].values() if _is_selected(item)]
            metadata = {"resourceVersion": str(server.version)}
        query = parse_qs(parts.query)
        first, size = int(query.get("continue", ["0"])[0]), int(query["limit"][0])
        if first + size < len(items):
            metadata["continue"] = str(first + size)
        return self._reply({"kind": "List", "metadata": metadata, "items": items[first : first + size]})

    def _reply(self, answer: Json) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _watch(self, plural: str) -> None:
        events: queue.Queue[Json | None] = queue.Queue()
        since = int(parse_qs(urlsplit(self.path).query)["resourceVersion"][0])
        with self.server.lock:
            for version, past in self.server.history[plural]:
                if version > since:
                    events.put(past)
            self.server.watches[plural].append(events)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        while (event := events.get()) is not END:
            line = json.dumps(event).encode() + b"\n"
            try:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            except OSError:
                return

    def log_message(self, *_arguments: t.Any) -> None:
        pass


class KubeServer(ThreadingHTTPServer):
    """The nodes and pods of a cluster. ``put`` and ``delete`` change them, and the open watches show the change."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.lock = threading.Lock()
        self.version = 1
        self.objects: dict[str, dict[str, Json]] = {"nodes": {}, "pods": {}}
        self.history: dict[str, list[tuple[int, Json]]] = {"nodes": [], "pods": []}
        self.watches: dict[str, list[queue.Queue[Json | None]]] = {"nodes": [], "pods": []}
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    @property
    def api(self) -> KubeApi:
        url = f"http://127.0.0.1:{self.server_address[1]}"
        return KubeApi(Transport(Connection(lambda: ConnectionSettings(server=url)), user_agent="test"), retry_for_s=0)

    def put(self, plural: str, item: Json) -> None:
        name = item["metadata"]["name"]
        with self.lock:
            before = self.objects[plural].get(name)
            self.version += 1
            item["metadata"]["resourceVersion"] = str(self.version)
            self.objects[plural][name] = item
            if _is_selected(item):
                self._show(plural, "MODIFIED" if before is not None and _is_selected(before) else "ADDED", item)

    def delete(self, plural: str, name: str) -> None:
        with self.lock:
            self.version += 1
            item = self.objects[plural].pop(name)
            self._show(plural, "DELETED", {**item, "metadata": {**item["metadata"], "resourceVersion": str(self.version)}})

    def stop(self) -> None:
        with self.lock:
            for watches in self.watches.values():
                for events in watches:
                    events.put(END)
        self.shutdown()
        self.server_close()

    def _show(self, plural: str, kind: str, item: Json) -> None:
        event = {"type": kind, "object": item}
        self.history[plural].append((self.version, event))
        for events in self.watches[plural]:
            events.put(event)


def _is_selected(item: Json) -> bool:
    """Return whether the field selector of the pods selects the object. Nodes have no selector."""
    spec: Json = item.get("spec", {"nodeName": "any"})
    return bool(spec["nodeName"])


def node(name: str, address: str = "", *, annotations: dict[str, str] | None = None, **labels: str) -> Json:
    addresses = [{"type": "InternalIP", "address": address}] if address else []
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels, "annotations": annotations or {}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}, "addresses": addresses},
    }


def pod(name: str, node_name: str = "", *, phase: str = "Pending", annotations: dict[str, str] | None = None, **status: t.Any) -> Json:
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": name.partition("-")[0]},
            "annotations": annotations or {},
        },
        "spec": {
            "nodeName": node_name,
            "schedulerName": "network-traffic",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}],
        },
        "status": {"phase": phase, **status},
    }


READY = [{"type": "Ready", "status": "True"}]
CRASHING = [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}}]
