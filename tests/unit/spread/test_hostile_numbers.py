# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Numbers that the API server admits and that are far beyond any cluster cost no more than usual ones."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.check.result import check_result
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.check import check_spread
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.spread.options import CheckOptions

from tests.unit.support.cluster import workers

MAX_INT32 = 2**31 - 1


@pytest.mark.parametrize("partition", [0, MAX_INT32 - 1, MAX_INT32])
def test_stateful_set_that_asks_for_two_thousand_million_replicas_is_judged(partition: int) -> None:
    """A loop over its ordinals takes minutes, which the time limit of a test ends."""
    cluster = workers(3)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
    status = {"updatedReplicas": MAX_INT32, "replicas": MAX_INT32, "observedGeneration": 1}
    cluster.stateful_set("db", ["worker-1", "worker-1"], replicas=MAX_INT32, updateStrategy=strategy, status=status)
    result = check_result(check_spread(cluster.snapshot(), CheckOptions()), CheckOptions(), include_healthy=True)
    (line,) = result["workloads"]
    assert (line["verdict"], line["placed"]) == ("collapsed", 2)
