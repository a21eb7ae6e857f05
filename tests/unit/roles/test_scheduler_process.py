# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The process whose program the role extended_scheduler runs as root. Any process can have its name and its command line."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.filter.kubeadm_schedulers import kubeadm_schedulers
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common import static_pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.files import Changes
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import Answer, HostError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.kubeadm_scheduler import KubeScheduler

from tests.ended_together import AS_ROOT, namespace_obstacle
from tests.integration.roles.host_cases import CasesRun, play_cases
from tests.integration.workloads import wait_until
from tests.not_run import not_run
from tests.static_pods import made_cgroup

pytestmark = pytest.mark.plays

LOGS = Path("/var/log/pods")
NODE = f"node-of-a-test-{uuid4()}"
MANIFEST = "/etc/kubernetes/manifests/kube-scheduler.yaml"
MARK = "the program of this process was run"


@contextlib.contextmanager
def process_with_the_command(folder: Path, cgroup: str = "") -> Iterator[list[str]]:
    """Run a process in namespaces of its own, without rights outside. Yields its command line, whose program then leaves a mark."""
    program = folder / "kube-scheduler"
    shutil.copy(str(shutil.which("sleep")), program)
    words = [str(program), "613"]
    unshare = ["unshare", *AS_ROOT, "--mount", "--pid", "--fork", "--kill-child"]
    with contextlib.ExitStack() as stack:
        first = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(stack.enter_context(made_cgroup(cgroup)))] if cgroup else []
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
def folder_of_the_kubelet(name: str) -> Iterator[None]:
    """Make the folder of the logs of a pod, as only the kubelet can."""
    folder = LOGS / name
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        not_run(f"no folder of a pod can be made: {error}")
    try:
        yield
    finally:
        shutil.rmtree(folder)
        with contextlib.suppress(OSError):
            LOGS.rmdir()


def play(folder: Path, words: dict[str, list[str]]) -> CasesRun:
    """Let the scheduler of each case check a configuration."""
    plan = {
        case: {
            "node": NODE,
            "config": "{}",
            "is_interrupted": False,
            "lacks_config": False,
            **dict.fromkeys(("running_words", "previous_words", "words"), own),
        }
        for case, own in words.items()
    }
    options = {"state": "checked", "host": "{{ inventory_hostname }}", "folder": str(folder), "manifest_path": MANIFEST}
    tasks: list[dict[str, Any]] = [
        {"onprem.kube_scheduling.kubeadm_scheduler_host": options | {"plan": "{{ plan[inventory_hostname] }}"}, "register": "found"},
        {"ansible.builtin.fail": {"msg": "{{ found.problems | join }}"}},
    ]
    playbook = folder / "play.yml"
    playbook.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "vars": {"plan": plan}, "tasks": tasks}]))
    this: dict[str, Any] = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    return play_cases(playbook, dict.fromkeys(words, this), folder=folder)


REFUSED = f"no process in a container of Pod kube-system/kube-scheduler-{NODE} has the command of {MANIFEST}"


def test_a_process_that_only_has_the_command_line_is_refused(tmp_path: Path) -> None:
    if obstacle := namespace_obstacle():
        not_run(obstacle)
    with process_with_the_command(tmp_path) as words:
        run = play(tmp_path, {"named": words})
    assert f"named: {REFUSED}" in run.failure("named") and not (tmp_path / "mark").exists(), run.output


@pytest.mark.usefixtures("as_root")
def test_only_a_process_in_the_cgroup_of_the_static_pod_is_used(tmp_path: Path) -> None:
    uid, tenant = uuid4(), uuid4()
    pod = f"kubepods/burstable/pod{uid}/container"
    cgroups = {"static-pod": pod, "pod-of-a-tenant": f"kubepods/besteffort/pod{tenant}/container/{pod}"}
    words: dict[str, list[str]] = {}
    with contextlib.ExitStack() as stack:
        stack.enter_context(folder_of_the_kubelet(f"kube-system_kube-scheduler-{NODE}_{uid}"))
        # Each user of the cluster can have pods of this name in a namespace of his own.
        stack.enter_context(folder_of_the_kubelet(f"tenant_kube-scheduler-{NODE}_{tenant}"))
        for case, cgroup in cgroups.items():
            (tmp_path / case).mkdir()
            words[case] = stack.enter_context(process_with_the_command(tmp_path / case, cgroup))
        run = play(tmp_path, words)
    assert MARK in run.failure("static-pod") and (tmp_path / "static-pod" / "mark").exists(), run.output
    assert REFUSED in run.failure("pod-of-a-tenant") and not (tmp_path / "pod-of-a-tenant" / "mark").exists(), run.output


PROGRAM = """
import pathlib, sys, time
if any("refused" in pathlib.Path(word[9:]).read_text() for word in sys.argv if word.startswith("--config=")):
    sys.exit('E1130 "command failed" err="the configuration is refused"')
time.sleep(600)
"""


class Kubelet(threading.Thread):
    """Runs the program of a manifest in a cgroup and with a log as a kubelet does, and starts it again when it has ended."""

    def __init__(self, manifest: Path, logs: Path) -> None:
        super().__init__(daemon=True)
        self.manifest, self.logs = manifest, logs
        self.has_ended = threading.Event()

    def run(self) -> None:
        while not self.has_ended.is_set():
            text = self.manifest.read_text()
            uid = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
            log = self.logs / f"kube-system_kube-scheduler-{NODE}_{uid}" / "kube-scheduler"
            log.mkdir(parents=True, exist_ok=True)
            with made_cgroup(f"kubepods/burstable/pod{uid}/container") as cgroup:
                self._run_pod(text, log, cgroup)

    def _run_pod(self, text: str, log: Path, cgroup: Path) -> None:
        words = [str(word) for word in yaml.safe_load(text)["spec"]["containers"][0]["command"]]
        start = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && exec "$@"', str(cgroup), "bash", "-c", f'exec -a "$0" "{sys.executable}" "$@"']
        for number in itertools.count():
            with (log / f"{number}.log").open("wb") as output, subprocess.Popen([*start, *words], stderr=output) as process:
                while process.poll() is None and self.manifest.read_text() == text and not self.has_ended.is_set():
                    time.sleep(0.1)
                process.kill()
            # It waits before the next start.
            for _again in range(80):
                if self.manifest.read_text() != text or self.has_ended.is_set():
                    return
                time.sleep(0.1)


@pytest.mark.usefixtures("as_root")
def test_the_processes_of_a_kubelet_show_whether_the_scheduler_is_healthy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest, folder, logs = tmp_path / "manifests" / "scheduler.yaml", tmp_path / "role", tmp_path / "logs"
    manifest.parent.mkdir()
    container = {"name": "kube-scheduler", "command": ["kube-scheduler", "-c", PROGRAM]}
    manifest.write_text(yaml.safe_dump({"metadata": {"name": "kube-scheduler"}, "spec": {"containers": [container]}}))
    monkeypatch.setattr(static_pod, "LOGS", str(logs))

    def scheduler(plan: dict[str, Any]) -> KubeScheduler:
        wanted = {"host": "cp-1", "manifest_path": str(manifest), "folder": str(folder), "plan": plan, "timeout": 40}
        wanted |= {"ports": [], "names": [], "extender_manifest_path": None}
        return KubeScheduler(SimpleNamespace(**wanted), lambda _words: (0, "", ""), lambda _url: Answer(200, "", ""), Changes(False))

    def run(profile: str) -> KubeScheduler:
        given = {"folder": str(folder / "scheduler"), "manifest_path": str(manifest), "kubernetes_version": "1.36.3"}
        read = {**scheduler({}).read(), "node": NODE}
        found = scheduler(kubeadm_schedulers({"cp-1": read}, profiles=[{"schedulerName": profile}], **given)["hosts"]["cp-1"])
        found.present()
        return found

    kubelet = Kubelet(manifest, logs)
    kubelet.start()
    try:
        run("network-traffic").kept()
        works = manifest.read_text()
        with pytest.raises(HostError) as error:
            run("refused")
    finally:
        kubelet.has_ended.set()
        kubelet.join()
    assert "does not start: its container ends after each start. Its log: the configuration is refused." in str(error.value)
    assert "The earlier manifest is restored, and the scheduler is healthy again" in str(error.value) and manifest.read_text() == works


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
