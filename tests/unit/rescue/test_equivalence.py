# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Critical pods with the same plan."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.equivalence import equivalence_key
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.options import RescueOptions
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.rescue.plan import RescueContext

from tests.unit.support.cluster import snapshot_of
from tests.unit.support.objects import node, pending, running


@pytest.mark.parametrize(("namespace", "same"), [("kube-system", False), ("app", True)])
def test_pods_of_two_controllers_are_equal_unless_a_pod_of_one_of_them_has_a_node(namespace: str, same: bool) -> None:
    """A pod of another namespace with the uid of the controller is not one of its pods."""
    one, other = pending(owner="dns"), pending(owner="proxy")
    snapshot = snapshot_of(nodes=[node("a-1")], pods=[one, other, running("a-1", owner="dns", namespace=namespace)])
    keys = [equivalence_key(pod, RescueContext(), snapshot, RescueOptions()) for pod in (one, other)]
    assert None not in keys and (keys[0] == keys[1]) == same
