# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Renders the objects of the roles, with the defaults of their variables, into deploy/: a base for kustomize.

It also renders the alerts in deploy/monitoring/alerts.yml into an object of the Prometheus operator.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import yaml

from tools.errors import ToolError, exit_with
from tools.paths import ROOT

BASE = ROOT / "deploy"
ALERTS = BASE / "monitoring" / "alerts.yml"
PROMETHEUS_RULE = BASE / "monitoring" / "prometheus-rule.yaml"
HEAD_OF_RULE = """\
# Rendered by `make deploy` from alerts.yml.
---
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: kube-scheduling
spec:
"""
ROLES = ("spread_cronjob", "critical_rescuer")


def main() -> int:
    render(BASE)
    PROMETHEUS_RULE.write_text(prometheus_rule(ALERTS.read_text()))
    return 0


def prometheus_rule(alerts: str) -> str:
    """Return the PrometheusRule with these rules. It has their comments, too, because they explain the thresholds."""
    return HEAD_OF_RULE + textwrap.indent(alerts[alerts.index("groups:\n") :], "  ")


def render(folder: Path) -> None:
    """Write the objects of the roles into a folder. Raises ToolError."""
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    tasks = [
        {
            "ansible.builtin.include_role": {"name": f"onprem.kube_scheduling.{role}"},
            "vars": {f"{role}_image": f"kube-scheduling.onprem/services:{version}", f"{role}_render_to": str(folder)},
        }
        for role in ROLES
    ]
    python = {"ansible_python_interpreter": "{{ ansible_playbook_python }}"}
    play = {"hosts": "localhost", "connection": "local", "gather_facts": False, "vars": python, "tasks": tasks}
    with tempfile.TemporaryDirectory() as scratch:
        playbook = Path(scratch, "render.yml")
        playbook.write_text(json.dumps([play]))
        command = [str(Path(sys.executable).with_name("ansible-playbook")), str(playbook)]
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ToolError(f"the roles cannot be rendered:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    exit_with(main, "make deploy")
