# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""All programs in a cluster, from site.yml to uninstall.yml: what `make test` runs of these playbooks and their roles."""

from __future__ import annotations

import pytest

from lab.cluster import Cluster
from tests.integration.modules.conftest import cluster
from tests.integration.playbooks.site_runs import Site, site, stats_of
from tests.integration.roles.installed import installed
from tests.integration.roles.installed_scheduler import kubelet

__all__ = ["cluster", "site"]

pytestmark = pytest.mark.timeout(1800)

ALL = {"site_scheduler": True, "extended_scheduler_http_timeout": "20s"}


def test_all_programs_are_installed_tried_verified_and_removed(cluster: Cluster, site: Site) -> None:
    folder = site.folder / "programs"
    folder.mkdir()
    with kubelet(cluster, folder):
        made = site.play("site", **ALL)
        assert made.code == 0, made.output
        assert stats_of(made, "kube_scheduling_site")["installed"] == ["spread_cronjob", "critical_rescuer", "extended_scheduler"]
        assert stats_of(made, "kube_scheduling_verify")["ok"] and "network-traffic has bound a pod to worker-" in made.output
        again = site.play("scheduler", extended_scheduler_http_timeout="20s")
        assert again.code == 0 and again.changed == 0 and stats_of(again, "kube_scheduling_scheduler")["bound"], again.output
    names = installed(cluster)
    assert {"cronjobs kube-scheduling/kube-scheduling-rebalancer", "deployments kube-scheduling/kube-scheduling-rescuer"} <= names

    cluster.kubectl("--namespace", "kube-scheduling", "delete", "cronjob", "kube-scheduling-rebalancer")
    verified = site.play("verify", **ALL)
    missing = stats_of(verified, "kube_scheduling_verify")["error"]
    assert verified.code == 2 and "CronJob kube-scheduling/kube-scheduling-rebalancer" in missing, verified.output

    gone = site.play("uninstall")
    assert gone.code == 0 and installed(cluster) == set(), gone.output
