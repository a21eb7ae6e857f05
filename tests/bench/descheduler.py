# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The descheduler's strategy for the same purpose: RemoveDuplicates, one pass as a dry run that searches a node for each pod."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

from lab.cluster import Cluster
from tests.bench.measure import Command

POLICY = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerPolicy",
    "profiles": [
        {
            "name": "bench",
            "pluginConfig": [{"name": "DefaultEvictor", "args": {"nodeFit": True}}, {"name": "RemoveDuplicates", "args": {}}],
            "plugins": {"balance": {"enabled": ["RemoveDuplicates"]}},
        }
    ],
}
_EVICTED = re.compile(r'"Evicted pod in dry run mode" pod="([^/"]+)/(app-\d+)-[^"]*"')


def dry_run(program: Path, cluster: Cluster, log: Path) -> Command:
    """One pass; what it would evict is in ``log``."""
    policy = log.with_suffix(".yaml")
    policy.write_text(json.dumps(POLICY), encoding="utf-8")
    options = ["--kubeconfig", str(cluster.kubeconfig), "--policy-config-file", str(policy), "--dry-run", "--secure-port", "0", "-v", "1"]
    return Command([str(program), *options], errors=log)


def evictions(log: Path) -> Counter[str]:
    """By Deployment (`namespace/name`), how many of its pods it would evict."""
    return Counter("/".join(found) for found in _EVICTED.findall(log.read_text(encoding="utf-8")))
