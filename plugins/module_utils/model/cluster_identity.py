# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The cluster that an output is about."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping


class ClusterIdentity(t.NamedTuple):
    """The names of a cluster and of a context in the kubeconfig, and the URL of the API server without a login.

    Without a kubeconfig there is no context, and the name is the URL. All are empty if the cluster is not known.
    """

    name: str = ""
    context: str = ""
    server: str = ""

    @classmethod
    def in_result(cls, result: Mapping[str, t.Any]) -> ClusterIdentity:
        """Return the value of the key ``cluster`` in a result. Without this key the cluster is not known."""
        found = result.get("cluster") or {}
        return cls(**{field: str(found.get(field) or "") for field in cls._fields})

    @property
    def line(self) -> str:
        """Return the first line of outputs, or its beginning."""
        others = [f"context {self.context}"] if self.context else []
        others += [self.server] if self.server not in ("", self.name) else []
        return f"{self.name} ({', '.join(others)})" if others else self.name

    def fields(self) -> dict[str, str]:
        """Return the value of the key ``cluster`` in results."""
        return self._asdict()
