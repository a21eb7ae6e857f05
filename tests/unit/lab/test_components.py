# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A component of a simulated cluster has ended if its pid file names a process that does not exist."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lab.components import Component
from lab.layout import Layout


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
