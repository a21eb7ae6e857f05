# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A login in a URL of a variable is not shown: not by the task that fails, not with `-vvv`, and not in the error message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import yaml

from tests.integration.roles.role_play import RoleRun, ansible_playbook

LOGIN = "user:T0KEN@"
PIP_ARGUMENTS = ["--index-url", f"https://{LOGIN}mirror.example.org/simple", f"--extra-index-url=https://{LOGIN}other.example.org"]
PRINT_ARGUMENTS = ["sh", "-c", 'echo "no answer with $*" >&2; exit 1', "sh"]
"""A program that fails. Its error output has its arguments."""


def run_tasks(folder: Path, role: str, tasks_from: str, facts: dict[str, Any], *, show: str = "", **variables: Any) -> RoleRun:
    """Run a task file of a role with facts of earlier tasks, and show a fact that it sets. The variables replace those of the role."""
    tasks: list[dict[str, Any]] = [{"ansible.builtin.include_role": {"name": f"onprem.kube_scheduling.{role}", "tasks_from": tasks_from}}]
    if show:
        tasks.append({"ansible.builtin.debug": {"msg": f"{{{{ {show} | join('; ') }}}}"}})
    play = {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "vars": {"ansible_python_interpreter": "{{ ansible_playbook_python }}", **facts},
        "tasks": tasks,
    }
    playbook = folder / "play.yml"
    playbook.write_text(json.dumps([play]))
    return ansible_playbook(playbook, "-vvv", "-e", json.dumps(variables), folder=folder)


def build(folder: Path, **variables: Any) -> RoleRun:
    """Run the build of the image, in which the container engine fails."""
    engine = folder / "engine"
    engine.write_text('#!/bin/sh\necho "no answer with $*" >&2\nexit 1\n')
    engine.chmod(0o755)
    facts = {
        "__service_image_engine": str(engine),
        "__service_image_built_as": "services:1",
        "__service_image_version": "1",
        "service_image_result": {"reference": "services:1"},
    }
    return run_tasks(folder, "service_image", "build", facts, **variables)


def test_the_download_of_the_wheels_of_the_image(tmp_path: Path) -> None:
    run = build(tmp_path, __service_image_context_program=PRINT_ARGUMENTS, service_image_pip_arguments=PIP_ARGUMENTS)
    assert run.code == 2 and "T0KEN" not in run.output, run.output
    assert "Download the wheels: no answer with wheelhouse" in run.output
    assert "https://mirror.example.org/simple --pip-argument=--extra-index-url=https://other.example.org. Check" in run.output, run.output


@pytest.mark.parametrize("arguments", [[f"--build-arg=HTTPS_PROXY=http://{LOGIN}proxy.example.org:3128"], []])
def test_the_build_of_the_image(tmp_path: Path, arguments: list[str]) -> None:
    run = build(tmp_path, __service_image_context_program=["true"], service_image_build_arguments=arguments)
    assert run.code == 2 and "T0KEN" not in run.output, run.output
    shown = " ".join(arguments).replace(LOGIN, "")
    assert "Build the image: no answer with build --file" in run.output and f"{shown} /" in run.output, run.output
    # The other output of the task is hidden only if it has arguments of the user, which may have a password.
    task = run.output.partition("service_image : Build the image]")[2]
    assert ('"cmd": [' in task) is (not arguments), run.output


def test_the_download_of_the_wheels_for_a_host(tmp_path: Path) -> None:
    facts = {
        "__extended_scheduler_host": "host-1",
        "__extended_scheduler_lines_of_hosts": {"host-1": [["machine", "x86_64"], ["python", "/usr/bin/python3.11", "3.11", "True"]]},
        "__extended_scheduler_services": {"3.11-amd64": "0123456789ab"},
    }
    run = run_tasks(
        tmp_path,
        "extended_scheduler",
        "systemd_wheels",
        facts,
        __extended_scheduler_cache=str(tmp_path),
        __extended_scheduler_context_program=PRINT_ARGUMENTS,
        extended_scheduler_pip_arguments=PIP_ARGUMENTS,
    )
    assert run.code == 2 and "T0KEN" not in run.output, run.output
    assert "Download the wheels: no answer with wheelhouse" in run.output
    assert "--extra-index-url=https://other.example.org. No unit was changed" in run.output, run.output


def test_the_archive_with_kube_scheduler(tmp_path: Path) -> None:
    run = run_tasks(
        tmp_path,
        "extended_scheduler",
        "systemd_binary",
        {"__extended_scheduler_errors": []},
        show="__extended_scheduler_errors",
        __extended_scheduler_cache=str(tmp_path),
        extended_scheduler_binary_archive=f"http://{LOGIN}127.0.0.1:1/kubernetes.tar.gz",
        extended_scheduler_binary_checksum="a" * 64,
    )
    assert run.code == 0 and "T0KEN" not in run.output, run.output
    assert "http://127.0.0.1:1/kubernetes.tar.gz, which extended_scheduler_binary_archive names, cannot be read (" in run.output, run.output


@contextmanager
def prometheus_with(targets: list[dict[str, Any]]) -> Iterator[str]:
    """Answer each request with these active targets. Yields the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps({"data": {"activeTargets": targets}}).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_the_address_of_prometheus(tmp_path: Path) -> None:
    expected = {"targets": ["10.0.0.1:9100"], "labels": {"node": "node-1", "__meta_inventory_hostname": "node-1"}}
    (tmp_path / "targets.yml").write_text(yaml.safe_dump([expected]))
    down = {"labels": {"node": "node-2"}, "health": "down", "scrapeUrl": "http://10.0.0.2:9100/metrics", "lastError": "refused"}
    with prometheus_with([down]) as address:
        run = run_tasks(
            tmp_path,
            "node_exporter",
            "prometheus_verify",
            {},
            show="__node_exporter_prometheus_missing",
            node_exporter_prometheus_dir=str(tmp_path),
            node_exporter_prometheus_url=f"http://{LOGIN}{address}",
        )
    assert run.code == 0 and "T0KEN" not in run.output, run.output
    assert f"Prometheus http://{address} does not know the target 10.0.0.1:9100 of the node node-1: name the file" in run.output, run.output
    assert f"Prometheus http://{address} cannot scrape http://10.0.0.2:9100/metrics of the node node-2: refused" in run.output, run.output
