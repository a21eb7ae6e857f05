# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The processes of a static pod are those in its cgroup. No other process can say that it is one."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common import static_pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.static_pod import StaticPod, values_of

from tests.integration.workloads import wait_until
from tests.static_pods import made_cgroup

NAME = "kube-scheduling-rescuer"


@contextlib.contextmanager
def process_in(cgroup: Path) -> Iterator[int]:
    """Run a process with a variable in its environment in a cgroup."""
    words = ["sh", "-c", 'echo $$ > "$0/cgroup.procs" && MARK=here exec sleep 613', str(cgroup)]
    with subprocess.Popen(words) as process:
        wait_until(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", what="the process")
        yield process.pid
        process.kill()


@pytest.mark.usefixtures("as_root")
def test_only_a_process_in_the_cgroup_of_the_static_pod_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_pod, "LOGS", str(tmp_path))
    uid, other, tenant = uuid4().hex, uuid4().hex, uuid4()
    (tmp_path / f"kube-system_{NAME}-node-1_{uid}").mkdir()
    # A Deployment in the same namespace, and a static pod with another name.
    (tmp_path / f"kube-system_{NAME}-5c9f-x2x_{tenant}").mkdir()
    (tmp_path / f"kube-system_another-{NAME}-node-1_{other}").mkdir()
    pod = f"kubepods/burstable/pod{uid}/container"
    others = (f"kubepods/besteffort/pod{tenant}/container/{pod}", f"kubepods/pod{tenant}/a\r0::/{pod}", f"kubepods/pod{other}/x")
    with contextlib.ExitStack() as stack:
        own, *_rest = [stack.enter_context(process_in(stack.enter_context(made_cgroup(cgroup)))) for cgroup in (pod, *others)]
        found = {pid: values_of(process, "environ") for pid, process in StaticPod(NAME).processes().items()}
        commands = [["sleep", "613"], ["sleep", "614"]]
        assert [StaticPod(NAME, node).with_command(*commands) for node in ("node-1", "node-2")] == [[own], []]
    assert list(found) == [own] and "MARK=here" in found[own]
    monkeypatch.setattr(static_pod, "LOGS", str(tmp_path / "nowhere"))
    assert StaticPod(NAME).processes() == {}


def test_the_end_of_the_newest_log_is_that_of_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static_pod, "LOGS", str(tmp_path))
    pod = StaticPod(NAME)
    assert pod.log_end() == []
    for age, text in enumerate(("broken", "earlier")):
        folder = tmp_path / f"kube-system_{NAME}-node-1_{uuid4().hex}" / "rescuer"
        folder.mkdir(parents=True)
        log = folder / "0.log"
        log.write_text(f"2026-01-02T03:04:05.6Z stdout F begin\n2026-01-02T03:04:05.7Z stderr F {text}\n")
        subprocess.run(["touch", "--date", f"-{age} hours", str(log)], check=True)
    assert len(pod.folders()) == 2 and pod.log_end() == ["begin", "broken"]
