# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A second scheduler by scheduler.yml: what `make test` runs of this playbook."""

from __future__ import annotations

import pytest

from lab.cluster import Cluster
from tests.integration.cluster_identity import identity_of
from tests.integration.modules.conftest import cluster
from tests.integration.playbooks.site_runs import SCHEDULER, Site, site, stats_of
from tests.integration.roles.installed import remove_all
from tests.integration.roles.installed_scheduler import kubelet

__all__ = ["cluster", "site"]

pytestmark = pytest.mark.timeout(1800)


def test_a_scheduler_with_an_extender_is_installed_and_binds_a_pod(cluster: Cluster, site: Site) -> None:
    folder = site.folder / "programs"
    folder.mkdir()
    with kubelet(cluster, folder):
        made = site.play("scheduler", extended_scheduler_http_timeout="20s")
    assert made.code == 0, made.output
    assert stats_of(made, "kube_scheduling_scheduler") == {**SCHEDULER, "plan": False, "cluster": identity_of(cluster), "bound": True}
    assert "network-traffic has bound a pod to worker-" in made.output
    remove_all(cluster)
