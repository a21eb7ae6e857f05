# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The units of systemd that the role extended_scheduler writes on hosts: the hashes in their names, and what systemd says about them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.roles.host_cases import play_cases
from tools.paths import ROOT

ROLE = ROOT / "roles" / "extended_scheduler"
SYSTEMD_ANALYZE = shutil.which("systemd-analyze")
HOST_LINES = [["machine", "x86_64"], ["python", "/usr/bin/python3.11", "3.11", "True"]]
MOST_EXPOSURE = 20
"""The limit of `systemd-analyze security`, in tenths."""

CASES: dict[str, dict[str, Any]] = {
    "two-extenders": {
        "preset": "safe_pigeon",
        "prometheus_urls": ["http://prometheus.example.org:9090"],
        "secure_port": 10359,
        "verbosity": 4,
    },
    "before": {"agent_args": {"network_traffic": {"window": "5m"}}},
    "after": {"agent_args": {"network_traffic": {"window": "6m"}}},
    "analyzed": {"program_folder": "/PROGRAMS", "python": "/usr/bin/python3"},
}
"""Variables of the role, without its prefix."""

Units = dict[str, dict[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def units(tmp_path_factory: pytest.TempPathFactory) -> Units:
    """The units by their names, as the role makes them of the variables of each case."""
    folder = tmp_path_factory.mktemp("units")
    for name in ("templates", "files"):
        (folder / name).symlink_to(ROLE / name)
    facts = {
        "__extended_scheduler_host": "host-1",
        "__extended_scheduler_lines_of_hosts": {"host-1": HOST_LINES},
        "__extended_scheduler_services": {"3.11-amd64": "0123456789ab"},
        "__extended_scheduler_binary": {"file": "kube-scheduler", "sum": "c" * 64},
        "__extended_scheduler_kubeconfigs": {"scheduler": "kubeconfig of the scheduler", "extender": "kubeconfig of the extenders"},
    }
    content = "{{ {'units': __extended_scheduler_units, 'name': __extended_scheduler_units_name} | to_json }}"
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars_files": [str(ROLE / "defaults" / "main.yml"), str(ROLE / "vars" / "main" / "main.yml")],
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}", **facts},
        "tasks": [
            # Variables of a host do not replace those of vars_files.
            {"ansible.builtin.include_vars": "host_vars/{{ inventory_hostname }}.yml"},
            {"ansible.builtin.copy": {"content": content, "dest": f"{folder}/{{{{ inventory_hostname }}}}.json", "mode": "0600"}},
        ],
    }
    playbook = folder / "play.yml"
    playbook.write_text(json.dumps([play]))
    given = {
        case: {f"extended_scheduler_{name}": value for name, value in variables.items()} | {"extended_scheduler_shape": "systemd"}
        for case, variables in CASES.items()
    }
    run = play_cases(playbook, given, folder=folder)
    assert run.code == 0, run.output
    return {case: {unit["name"]: unit for unit in json.loads((folder / f"{case}.json").read_text())["units"]} for case in CASES}


def lines_of(unit: dict[str, Any], name: str) -> list[str]:
    """Return the values of a setting of a unit."""
    text = unit["text"].replace("\\\n", " ")
    return [" ".join(line.partition("=")[2].split()) for line in text.splitlines() if line.startswith(f"{name}=")]


SCHEDULER, FIRST, SECOND = (f"kube-scheduling-{name}.service" for name in ("scheduler", "extender-1", "extender-2"))


def test_units_run_the_programs_in_the_folder_of_their_own_files(units: Units) -> None:
    made = units["two-extenders"]
    assert list(made) == [FIRST, SECOND, SCHEDULER]
    scheduler, first = made[SCHEDULER], made[FIRST]
    assert lines_of(scheduler, "ExecStart") == [
        "/opt/kube-scheduling/kube-scheduler-cccccccccccc --config=scheduler.yaml --authentication-kubeconfig=kubeconfig "
        "--authorization-kubeconfig=kubeconfig --secure-port=10359 -v=4"
    ]
    assert lines_of(first, "ExecStart") == [
        "/usr/bin/python3.11 -m ansible_collections.onprem.kube_scheduling.services extender --config extender.yaml"
    ]
    assert {"KUBECONFIG=kubeconfig", "PYTHONPATH=/opt/kube-scheduling/services-0123456789ab"} <= set(lines_of(first, "Environment"))
    # The extenders start first.
    assert lines_of(scheduler, "After") == [f"network-online.target {FIRST} {SECOND}"]
    for unit, name in ((scheduler, "scheduler"), (first, "extender")):
        files = {file["name"]: file["content"] for file in unit["files"]}
        assert lines_of(unit, "LoadCredential") == [f"{file}:{unit['folder']}/{file}" for file in files]
        assert set(files) == {f"{name}.yaml", "kubeconfig"} and lines_of(unit, "DynamicUser") == ["yes"]
    contents = {file["name"]: file["content"] for file in scheduler["files"]}
    configuration = yaml.safe_load(contents["scheduler.yaml"])
    assert contents["kubeconfig"] == "kubeconfig of the scheduler"
    assert configuration["clientConnection"] == {"kubeconfig": "kubeconfig"}
    assert configuration["leaderElection"]["resourceName"] == "kube-scheduling-scheduler"


def test_a_change_of_an_extender_changes_only_its_unit(units: Units) -> None:
    before, after = units["before"], units["after"]
    assert before[SCHEDULER] == after[SCHEDULER] and before[FIRST]["hash"] != after[FIRST]["hash"]
    assert before[FIRST]["folder"] != after[FIRST]["folder"]
    # The process has the hash in its environment.
    assert [unit for unit in after.values() if f"KUBE_SCHEDULING_UNIT={unit['hash']}" not in lines_of(unit, "Environment")] == []


@pytest.mark.skipif(SYSTEMD_ANALYZE is None, reason="systemd-analyze is not installed")
def test_systemd_finds_no_fault_in_the_units_and_their_exposure_is_low(units: Units, tmp_path: Path) -> None:
    program = tmp_path / "opt" / "kube-scheduler-cccccccccccc"
    program.parent.mkdir()
    # systemd-analyze verify names a program that does not exist.
    program.touch(mode=0o755)
    for name, unit in units["analyzed"].items():
        file = tmp_path / name
        file.write_text(unit["text"].replace("/usr/bin/python3.11", "/bin/sh").replace("/PROGRAMS", str(program.parent)))
        verified = subprocess.run([str(SYSTEMD_ANALYZE), "verify", "--man=no", str(file)], capture_output=True, text=True)
        assert (verified.returncode, [line for line in verified.stderr.splitlines() if name in line]) == (0, []), verified.stderr
        command = [str(SYSTEMD_ANALYZE), "security", "--offline=yes", f"--threshold={MOST_EXPOSURE}", str(file)]
        answer = subprocess.run(command, capture_output=True, text=True)
        assert answer.returncode == 0, answer.stdout
