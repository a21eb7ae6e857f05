# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A component of a simulated cluster has ended if its pid file names a process that does not exist."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from lab import control_plane
from lab.components import Component
from lab.errors import LabError
from lab.layout import Layout
from lab.processes import has_ended


@pytest.fixture
def component(tmp_path: Path) -> Component:
    layout = Layout(folder=tmp_path / "c", name="c")
    layout.pids.mkdir(parents=True)
    return Component("etcd", ("etcd",), (), "http", "127.0.0.1:1", layout)


def test_a_component_without_a_pid_file_has_not_ended(component: Component) -> None:
    assert not component.has_ended


def test_a_pid_file_that_is_being_written_is_not_an_end(component: Component) -> None:
    component.pid_file.touch()
    assert not component.has_ended


def test_a_component_whose_process_is_gone_has_ended(component: Component) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    component.pid_file.write_text(str(process.pid))
    assert component.has_ended


@pytest.mark.parametrize("words", ["failed to wait for apiserver being healthy: timed out", "bind: address already in use"])
def test_only_a_component_that_gave_up_waiting_for_the_api_server_is_started_again(component: Component, words: str) -> None:
    component = replace(component, name="kube-controller-manager", command=("sleep", "60"))
    process = subprocess.Popen(["true"])
    process.wait()
    component.pid_file.write_text(str(process.pid))
    component.layout.kwok.mkdir(parents=True, exist_ok=True)
    component.layout.component_logs.mkdir(parents=True)
    component.log_file.write_text(f'E "command failed" err="{words}"\n')
    if "apiserver" not in words:
        with pytest.raises(LabError, match="kube-controller-manager ended"):
            control_plane._restart_or_raise([component], print)
        assert component.pid_file.read_text() == str(process.pid)
        return
    control_plane._restart_or_raise([component], print)
    started = int(component.pid_file.read_text())
    try:
        assert started != process.pid and not has_ended(started)
    finally:
        os.kill(started, signal.SIGKILL)
