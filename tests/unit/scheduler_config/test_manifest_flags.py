# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Flags of kube-scheduler that a configuration file replaces or contradicts."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.manifest_flags import (
    contradictions,
    flags_of,
    take_over,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.scheduler_config.problem import SchedulerConfigError

from tests.unit.scheduler_config.configurations import Json, configuration

KUBEADM = [
    "kube-scheduler",
    "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
    "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
    "--bind-address=127.0.0.1",
    "--kubeconfig=/etc/kubernetes/scheduler.conf",
    "--leader-elect=true",
]


@pytest.mark.parametrize(
    ("words", "flags"),
    [
        (["--a=b", "--c", "d", "--leader-elect", "--e=f=g"], {"a": "b", "c": "d", "leader-elect": "true", "e": "f=g"}),
        (["--a=1", "--a=2", "-v=3", "--kube_api_qps=5"], {"a": "2", "v": "3", "kube-api-qps": "5"}),
        (
            ["--unknown", "--config=/a", "--permit-port-sharing", "--kubeconfig", "/b"],
            {"unknown": "true", "config": "/a", "permit-port-sharing": "true", "kubeconfig": "/b"},
        ),
        (["--profiling", "--leader-elect=false", "x", "--"], {"profiling": "true", "leader-elect": "false"}),
    ],
)
def test_forms_of_flags(words: list[str], flags: dict[str, str]) -> None:
    assert flags_of(["kube-scheduler", *words]) == flags


def test_the_ignored_flags_of_kubeadm_are_taken_over() -> None:
    config, notes = take_over(configuration(), flags_of(KUBEADM))
    assert config == configuration(clientConnection={"kubeconfig": "/etc/kubernetes/scheduler.conf"}) and not notes
    assert take_over(config, flags_of(KUBEADM)) == (config, [])
    assert list(contradictions(config, flags_of(KUBEADM))) == []


def test_all_ignored_flags_become_fields() -> None:
    words = ["--kube-api-qps=20.5", "--kube-api-burst=40", "--kube-api-content-type=application/json", "--profiling=false"]
    config, _notes = take_over(configuration(), flags_of([*words, "--contention-profiling=F"]))
    connection = {"qps": 20.5, "burst": 40, "contentType": "application/json"}
    assert config == configuration(clientConnection=connection, enableProfiling=False, enableContentionProfiling=False)


def test_a_value_of_the_configuration_is_kept_with_a_note() -> None:
    before = configuration(clientConnection={"kubeconfig": "/own"})
    config, notes = take_over(before, flags_of(KUBEADM))
    assert config == before
    assert len(notes) == 1 and notes[0].startswith("--kubeconfig: ") and "clientConnection.kubeconfig of the file is /own; " in notes[0]


def test_flags_that_had_no_effect_until_now_are_not_taken_over() -> None:
    config, notes = take_over(configuration(), flags_of([*KUBEADM, "--config=/etc/kubernetes/scheduler/config.yaml"]))
    assert config == configuration() and "clientConnection.kubeconfig of the file is not set" in notes[0]


@pytest.mark.parametrize(
    ("election", "flag", "contradicts"),
    [
        ({"leaderElect": False}, "--leader-elect", True),
        ({"leaderElect": True}, "--leader-elect=true", False),
        ({}, "--leader-elect=false", False),
        ({"resourceName": "network-traffic"}, "--leader-elect-resource-name=kube-scheduler", True),
        ({"leaseDuration": "1m"}, "--leader-elect-lease-duration=60s", False),
        ({"leaseDuration": "1m"}, "--leader-elect-lease-duration=15s", True),
    ],
)
def test_a_flag_for_leader_election_that_contradicts_the_file_is_named(election: Json, flag: str, contradicts: bool) -> None:
    found = list(contradictions(configuration(leaderElection=election), flags_of(["kube-scheduler", flag])))
    assert bool(found) == contradicts
    assert not found or (
        found[0].startswith(f"{flag.partition('=')[0]}: ") and "leaderElection." in found[0] and "remove the flag" in found[0]
    )


@pytest.mark.parametrize("flag", ["--kube-api-qps=fast", "--kube-api-burst=1.5", "--profiling=maybe"])
def test_a_flag_that_cannot_be_read_is_refused(flag: str) -> None:
    with pytest.raises(SchedulerConfigError, match=f"{flag.partition('=')[0]}: its value '.*' cannot be read"):
        take_over(configuration(), flags_of([flag]))
