# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The process whose program the role extended_scheduler runs as root. Any process can have its name and its command line."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.ended_together import AS_ROOT, namespace_obstacle
from tests.integration.roles.host_cases import CasesRun, play_cases
from tests.integration.workloads import wait_until
from tests.not_run import not_run

pytestmark = pytest.mark.plays

CGROUPS = next((path for path in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")) if (path / "cgroup.procs").exists()), None)
"""The root of the processes, with version 1 or version 2 of cgroups."""
MARK = "the program of this process was run"


@contextlib.contextmanager
def process_with_the_command(folder: Path, cgroup: str = "") -> Iterator[list[str]]:
    """Run a process in namespaces of its own, without rights outside. Yields its command line, whose program then leaves a mark."""
    program = folder / "kube-scheduler"
    shutil.copy(str(shutil.which("sleep")), program)
    words = [str(program), "613"]
    unshare = ["unshare", *AS_ROOT, "--mount", "--pid", "--fork", "--kill-child"]
    with contextlib.ExitStack() as stack:
        first = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(stack.enter_context(made(cgroup)))] if cgroup else []
        process = stack.enter_context(subprocess.Popen([*first, *unshare, *words]))
        stack.callback(process.kill)
        wait_until(lambda: b"\0".join(word.encode() for word in words) + b"\0" in commands(), what="the command of the process")
        program.unlink()
        program.write_text(f"#!/bin/sh\ntouch '{folder}/mark'\necho 'err=\"{MARK}\"' >&2\nexit 1\n")
        program.chmod(0o755)
        yield words


def commands() -> list[bytes]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.append(path.read_bytes())
    return found


@contextlib.contextmanager
def made(name: str) -> Iterator[Path]:
    """Make a cgroup, and remove it after its processes have ended."""
    if CGROUPS is None:
        not_run("there are no cgroups")
    folder = CGROUPS / name
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        not_run(f"no cgroup can be made: {error}")
    try:
        yield folder
        wait_until(lambda: not (folder / "cgroup.procs").read_text(), what="the end of the processes")
    finally:
        while folder != CGROUPS and not [path for path in folder.iterdir() if path.is_dir()]:
            folder.rmdir()
            folder = folder.parent


def play(folder: Path, words: dict[str, list[str]], uid: str) -> CasesRun:
    """Let the scheduler of each case check a configuration. The kubelet has given this UID to its static pod."""
    pod = {"name": "kube-scheduler-node-1", "annotations": {"kubernetes.io/config.mirror": uid}}
    plan = {
        case: {"config": "{}", "running_words": own, "previous_words": own, "words": own, "is_interrupted": False}
        for case, own in words.items()
    }
    facts = {
        "__extended_scheduler_host": "{{ inventory_hostname }}",
        "__extended_scheduler_plan": {"hosts": plan},
        "__extended_scheduler_found": {"results": [{}, {"resources": [{"metadata": pod, "spec": {"nodeName": "node-1"}}]}]},
        "__extended_scheduler_nodes_of_hosts": dict.fromkeys(words, "node-1"),
        "__extended_scheduler_errors": [],
    }
    include = {"name": "onprem.kube_scheduling.extended_scheduler", "tasks_from": "kubeadm_check"}
    tasks = [
        {"ansible.builtin.include_role": include},
        {"ansible.builtin.fail": {"msg": "{{ __extended_scheduler_errors | join }}"}},
    ]
    playbook = folder / "play.yml"
    playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "vars": facts, "tasks": tasks}]))
    this: dict[str, Any] = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "extended_scheduler_become": False}
    return play_cases(playbook, dict.fromkeys(words, this), folder=folder)


REFUSED = (
    "no process in a container of Pod kube-system/kube-scheduler-node-1 has the command of /etc/kubernetes/manifests/kube-scheduler.yaml"
)


def test_a_process_that_only_has_the_command_line_is_refused(tmp_path: Path) -> None:
    if obstacle := namespace_obstacle():
        not_run(obstacle)
    with process_with_the_command(tmp_path) as words:
        run = play(tmp_path, {"named": words}, str(uuid4()))
    assert f"named: {REFUSED}" in run.failure("named") and not (tmp_path / "mark").exists(), run.output


@pytest.mark.usefixtures("as_root")
def test_only_a_process_in_the_cgroup_of_the_static_pod_is_used(tmp_path: Path) -> None:
    uid, tenant = uuid4(), uuid4()
    pod = f"kubepods/burstable/pod{uid}/container"
    cgroups = {"static-pod": pod, "pod-of-a-tenant": f"kubepods/besteffort/pod{tenant}/container/{pod}"}
    words: dict[str, list[str]] = {}
    with contextlib.ExitStack() as stack:
        for case, cgroup in cgroups.items():
            (tmp_path / case).mkdir()
            words[case] = stack.enter_context(process_with_the_command(tmp_path / case, cgroup))
        run = play(tmp_path, words, str(uid))
    assert MARK in run.failure("static-pod") and (tmp_path / "static-pod" / "mark").exists(), run.output
    assert REFUSED in run.failure("pod-of-a-tenant") and not (tmp_path / "pod-of-a-tenant" / "mark").exists(), run.output


def test_a_process_with_the_name_is_no_program_to_install(tmp_path: Path) -> None:
    """The control plane has such a process, and no program is given."""
    if obstacle := namespace_obstacle():
        not_run(obstacle)
    include = {"name": "onprem.kube_scheduling.extended_scheduler", "tasks_from": "preflight"}
    playbook = tmp_path / "play.yml"
    playbook.write_text(
        json.dumps([{"hosts": "kube_control_plane", "gather_facts": False, "tasks": [{"ansible.builtin.include_role": include}]}])
    )
    this = {"ansible_connection": "local", "extended_scheduler_shape": "systemd", "extended_scheduler_hosts": ["cp-1"]}
    with process_with_the_command(tmp_path):
        run = play_cases(playbook, {"cp-1": this}, folder=tmp_path, group="kube_control_plane")
    named = "there is no kube-scheduler to install: set extended_scheduler_binary_path, or extended_scheduler_binary_archive and"
    assert named in run.failure("cp-1") and not (tmp_path / "mark").exists(), run.output
