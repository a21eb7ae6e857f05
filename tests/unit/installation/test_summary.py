# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The summary at the end of the playbook site."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.plugins.action.site_summary import summary

PROGRAMS = [
    {"part": "spread_cronjob", "where": "CronJob tools/kube-scheduling-rebalancer", "only_logs": True},
    {"part": "critical_rescuer", "where": "Deployment tools/kube-scheduling-rescuer", "only_logs": False},
    {"part": "extended_scheduler", "where": "Deployment kube-system/kube-scheduling-scheduler", "only_logs": False},
    {"part": "node_exporter", "where": "3 of 3 nodes", "only_logs": False},
]
CLUSTER = "berlin (context admin@berlin, https://10.0.0.10:6443)"


def test_it_says_what_is_installed_where_what_has_changed_and_what_comes_next() -> None:
    lines = summary(
        CLUSTER, PROGRAMS, {"spread_cronjob": True, "critical_rescuer": False, "node_exporter": None}, is_plan=False
    ).splitlines()
    assert lines == [
        f"Cluster {CLUSTER}",
        "  rebalancer     CronJob tools/kube-scheduling-rebalancer: changed, only logs what it would do",
        "  rescuer        Deployment tools/kube-scheduling-rescuer: as it was",
        "  node_exporter  3 of 3 nodes",
        "  not in this run: scheduler (site_scheduler)",
        "Next:",
        "  kubectl annotate namespace NAME kube-scheduling.onprem/spread=allow    # lets a namespace take part",
        "  ansible-playbook onprem.kube_scheduling.site -i INVENTORY --tags rebalance --check    # what would be moved now",
        "  read the logs of the programs for a week, and then set site_dry_run: false",
        "  docs/install.md",
    ]


def test_after_check_mode_the_next_step_is_the_installation() -> None:
    text = summary("", PROGRAMS, {program["part"]: True for program in PROGRAMS}, is_plan=True)
    assert text.startswith("Cluster\n") and "would change" in text
    assert text.splitlines()[-1] == "  ansible-playbook onprem.kube_scheduling.site -i INVENTORY    # makes these changes"
