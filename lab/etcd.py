# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls of etcd's HTTP gateway, past the API server."""

from __future__ import annotations

import http.client
import json
from typing import Any

from lab.errors import LabError

TIMEOUT_S = 60.0
# etcd answers a range request for any key with its revision.
ANY_KEY = "AA=="


class Etcd:
    """A connection to one etcd, to be closed."""

    def __init__(self, address: str) -> None:
        self._connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)

    def call(self, method: str, body: dict[str, Any]) -> dict[str, Any]:
        """Answer of a method such as kv/txn; raises LabError for any status but 200."""
        self._connection.request("POST", f"/v3/{method}", json.dumps(body), {"Content-Type": "application/json"})
        answer = self._connection.getresponse()
        text = answer.read()
        if answer.status != http.client.OK:
            raise LabError(f"etcd answers {method} with {answer.status}: {text[:300].decode(errors='replace')}")
        decoded: dict[str, Any] = json.loads(text)
        return decoded

    def close(self) -> None:
        self._connection.close()


def compact(address: str) -> int:
    """Forget all versions of objects but the newest; returns etcd's revision, the oldest that can be read from now on."""
    etcd = Etcd(address)
    try:
        revision = int(etcd.call("kv/range", {"key": ANY_KEY})["header"]["revision"])
        etcd.call("kv/compaction", {"revision": str(revision)})
    finally:
        etcd.close()
    return revision
