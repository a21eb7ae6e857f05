# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The programs in a cluster, from site.yml to uninstall.yml: what `make test` runs of these playbooks and their roles."""

from __future__ import annotations

import pytest

from lab.cluster import Cluster
from tests.integration.modules.conftest import cluster
from tests.integration.playbooks.site_runs import Site, site, stats_of
from tests.integration.roles.installed import installed

__all__ = ["cluster", "site"]

pytestmark = pytest.mark.timeout(1800)


def test_programs_are_installed_verified_and_removed(cluster: Cluster, site: Site) -> None:
    # The same tasks verify below that all but one object are there.
    made = site.play("site", "--skip-tags", "verify")
    assert made.code == 0, made.output
    assert stats_of(made, "kube_scheduling_site")["installed"] == ["spread_cronjob", "critical_rescuer"]
    cron_job = "cronjobs kube-scheduling/kube-scheduling-rebalancer"
    assert {cron_job, "deployments kube-scheduling/kube-scheduling-rescuer"} <= installed(cluster)

    cluster.kubectl("--namespace", "kube-scheduling", "delete", "cronjob", "kube-scheduling-rebalancer")
    verified = site.play("verify")
    (missing,) = stats_of(verified, "kube_scheduling_verify")["error"].splitlines()
    assert verified.code == 2 and "CronJob kube-scheduling/kube-scheduling-rebalancer" in missing, verified.output

    gone = site.play("uninstall")
    assert gone.code == 0 and installed(cluster) == set(), gone.output
