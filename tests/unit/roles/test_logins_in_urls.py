# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A login in a URL of a variable is not shown: not by the task that fails, not with `-vvv`, and not in the error message."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from tests.integration.roles.host_cases import CasesRun, play_cases

pytestmark = pytest.mark.plays

LOGIN = "user:T0KEN@"
PIP_ARGUMENTS = ["--index-url", f"https://{LOGIN}mirror.example.org/simple", f"--extra-index-url=https://{LOGIN}other.example.org"]
PRINT_ARGUMENTS = ["sh", "-c", 'echo "no answer with $*" >&2; exit 1', "sh"]
"""A program that fails. Its error output has its arguments."""


@dataclass(frozen=True)
class Tasks:
    """A task file of a role with facts of earlier tasks. The variables replace those of the role. ``show`` is a fact that it sets."""

    role: str
    tasks_from: str
    facts: dict[str, Any]
    variables: dict[str, Any]
    show: str = ""

    def play(self, host: str) -> dict[str, Any]:
        """Return a play, which does not end the playbook if the tasks fail."""
        include = {"name": f"onprem.kube_scheduling.{self.role}", "tasks_from": self.tasks_from}
        tasks: list[dict[str, Any]] = [
            {"ansible.builtin.include_vars": f"host_vars/{host}.yml", "no_log": True},
            {"block": [{"ansible.builtin.include_role": include}], "rescue": [{"ansible.builtin.meta": "noop"}]},
        ]
        if self.show:
            tasks.append({"ansible.builtin.debug": {"msg": f"{{{{ {self.show} | join('; ') }}}}"}})
        python = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
        return {"hosts": host, "connection": "local", "gather_facts": False, "vars": python | self.facts, "tasks": tasks}


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


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> CasesRun:
    """A run of all cases with `-vvv`. No case shows the login."""
    folder = tmp_path_factory.mktemp("logins")
    expected = {"targets": ["10.0.0.1:9100"], "labels": {"node": "node-1", "__meta_inventory_hostname": "node-1"}}
    (folder / "targets.yml").write_text(f"---\n{json.dumps([expected])}\n")
    down = {"labels": {"node": "node-2"}, "health": "down", "scrapeUrl": "http://10.0.0.2:9100/metrics", "lastError": "refused"}
    with prometheus_with([down]) as address:
        cases = {
            "prometheus": Tasks(
                "node_exporter",
                "prometheus_verify",
                {},
                {"node_exporter_prometheus_dir": str(folder), "node_exporter_prometheus_url": f"http://{LOGIN}{address}"},
            ),
        }
        playbook = folder / "play.yml"
        playbook.write_text(json.dumps([tasks.play(host) for host, tasks in cases.items()]))
        done = play_cases(playbook, {host: tasks.variables for host, tasks in cases.items()}, "-vvv", folder=folder)
    assert done.code == 0 and "T0KEN" not in done.output, done.output
    return CasesRun(done.code, done.output.replace(address, "prometheus.example.org"))


def test_the_address_of_prometheus(run: CasesRun) -> None:
    for text in (
        "Prometheus http://prometheus.example.org does not know the target 10.0.0.1:9100 of the node node-1: name the file",
        "Prometheus http://prometheus.example.org cannot scrape http://10.0.0.2:9100/metrics of the node node-2: refused",
    ):
        assert text in run.output, run.output
