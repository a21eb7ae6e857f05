# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The requests of a restart of one Deployment, counted in the audit log; for the tests and for ``make bench``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from lab.audit import COMPLETE, STARTED
from lab.cluster import Cluster
from tests.integration.modules.module_process import Modules
from tests.integration.workloads import deployment, identity, pile_up

OTHERS = ("kube-", "kubectl", "kwok", "lab", "etcd")
"""User agents of the programs of the lab. Requests with any other user agent count, because the module's libraries can have their own."""

PLANNED = "planned (check mode)"
RESTARTED = "restarted"
NOT_NEEDED = "well spread already"
EVICTED = "one pod evicted"


def count_requests(cluster: Cluster, modules: Modules, namespace: str) -> dict[str, Counter[str]]:
    """Return the number of requests by situation and ``verb resource``. The task names a Deployment of two replicas.

    Two Deployments stay in the namespace. Raise AssertionError if a situation did not occur.
    """
    web, api = deployment(namespace, "web", 2), deployment(namespace, "api", 2)
    pile_up(cluster, web, api)

    def restarted(**params: Any) -> Callable[[], tuple[str, str]]:
        def run() -> tuple[str, str]:
            line = modules.restart(**params)["workloads"][0]
            return line["action"], line["outcome"]

        return run

    situations = {
        PLANNED: (restarted(**identity(web), check_mode=True), ("would_restart", "pending")),
        RESTARTED: (restarted(**identity(web)), ("restarted", "improved")),
        NOT_NEEDED: (restarted(**identity(web), only_if_helps=True, cooldown=0), ("skipped", "")),
        EVICTED: (restarted(**identity(api), strategy="evict_surplus"), ("evicted", "improved")),
    }
    counts: dict[str, Counter[str]] = {}
    for name, (run, expected) in situations.items():
        mark = cluster.audit().mark()
        found = run()
        assert found == expected, f"{name}: {found}"
        counts[name] = asked_for(cluster, mark)
    return counts


def asked_for(cluster: Cluster, mark: int) -> Counter[str]:
    """Return the number of requests by ``verb resource`` since the mark, without those of the lab's own programs."""
    found: Counter[str] = Counter()
    for event in cluster.audit().events(since=mark, stages=(STARTED, COMPLETE)):
        # A watch counts when it starts, because it may end after the module; everything else when it is answered.
        counts = event.stage == (STARTED if event.verb == "watch" else COMPLETE)
        if counts and not event.user_agent.startswith(OTHERS):
            resource = "/".join(filter(None, (event.resource or event.path, event.subresource)))
            found[f"{event.verb} {resource}"] += 1
    return found
