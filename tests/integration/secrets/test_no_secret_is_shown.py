# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""No token, password, key or certificate is in any result, log or traceback of Ansible, also with -vvv, whatever goes wrong."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from lab.cluster import Cluster
from lab.layout import REPOSITORY
from tests import ansible_core
from tests.integration.secrets.cases import CHECK, NOBODY, SECRET, Case, Json, cases, kubeconfig, secret

SHOW_ALL = {
    "ANSIBLE_DISPLAY_TRACEBACK": "always",
    "ANSIBLE_INJECT_INVOCATION": "true",
    "ANSIBLE_INJECT_FACT_VARS": "true",
    "ANSIBLE_NOCOLOR": "true",
    "ANSIBLE_LOCALHOST_WARNING": "false",
}


@pytest.fixture
def cluster(lab_cluster: Cluster) -> Cluster:
    return lab_cluster


def run(name: str, *arguments: str, folder: Path, **environment: str) -> tuple[int, str]:
    """The code and everything that Ansible writes: standard output, standard error and its log file."""
    log = folder / "ansible.log"
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("K8S_AUTH_", "KUBE", "ANSIBLE_"))}
    own = {"ANSIBLE_CONFIG": str(REPOSITORY / "ansible.cfg"), "ANSIBLE_LOG_PATH": str(log), "ANSIBLE_LOCAL_TEMP": str(folder / "tmp")}
    done = subprocess.run(
        [str(ansible_core.programs() / name), *arguments, "-vvv"], cwd=REPOSITORY, env={**clean, **own, **SHOW_ALL, **environment},
        capture_output=True, text=True, check=False, timeout=500,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr + log.read_text()


def playbook(wanted: list[Case], folder: Path) -> tuple[Path, Path, Path]:
    """A playbook with a task for each case, the variables that hold the secrets, and the file that gets all results.

    Ansible prints the lines of a playbook in which a task has failed. So these have none of the secrets.
    """
    tasks: list[Json] = []
    for number, case in enumerate(wanted):
        options = {name: "{{ cases[%d].options[%r] }}" % (number, name) for name in case.options}  # noqa: UP031
        environment = {name: "{{ cases[%d].environment[%r] }}" % (number, name) for name in case.environment}  # noqa: UP031
        tasks.append(
            {"name": case.name, case.module: options, "environment": environment, "register": f"result_{number}", "ignore_errors": True}
        )
        tasks.append({"name": f"show {number}", "ansible.builtin.debug": {"var": f"result_{number}"}})
    copied = {"content": "{{ [%s] | to_json }}" % ", ".join(f"result_{n}" for n in range(len(wanted))), "dest": str(folder / "results")}  # noqa: UP031
    tasks.append({"name": "keep", "ansible.builtin.copy": copied, "diff": False})
    (folder / "play.yml").write_text(yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]))
    variables = [{"options": case.options, "environment": case.environment} for case in wanted]
    (folder / "vars.json").write_text(json.dumps({"cases": variables}))
    return folder / "play.yml", folder / "vars.json", folder / "results"


def leaks(output: str, secrets: list[str]) -> list[str]:
    """The lines that hold a secret."""
    return [line[:2000] for line in output.splitlines() if any(one in line for one in secrets)]


def secrets_of_lab(cluster: Cluster) -> list[str]:
    """The secrets of the lab's administrator, and the lines of the decoded ones."""
    content: Any = yaml.safe_load(cluster.kubeconfig.read_text())
    user, authority = content["users"][0]["user"], content["clusters"][0]["cluster"]["certificate-authority-data"]
    found = [value for key, value in user.items() if key.endswith("-data") or key in ("token", "password")]
    lines = [line for value in [*found, authority] for line in decoded_lines(value)]
    return [*found, authority, *lines]


def decoded_lines(value: str) -> list[str]:
    try:
        text = base64.b64decode(value, validate=True).decode()
    except ValueError:
        return []
    return [line for line in text.splitlines() if line and not line.startswith("-----")]


def test_no_secret_is_shown_by_any_task(cluster: Cluster, tmp_path: Path) -> None:
    wanted = cases(cluster, tmp_path)
    play, variables, results = playbook(wanted, tmp_path)
    code, output = run("ansible-playbook", str(play), "-e", f"@{variables}", folder=tmp_path)
    assert code == 0, output[-5000:]
    own = [SECRET, base64.b64encode(SECRET.encode()).decode().rstrip("=")]
    shown = leaks(output + results.read_text(), [*own, *secrets_of_lab(cluster)])
    assert not shown, "\n".join(shown)
    found = [json.dumps(result) for result in json.loads(results.read_text())]
    wrong = {case.name: text for case, text in zip(wanted, found, strict=True) if case.says not in text}
    assert not wrong, "\n\n".join(f"{name}: {text}" for name, text in wrong.items())


@pytest.mark.parametrize("number", range(3))
def test_no_secret_is_shown_by_a_task_of_the_command_line(tmp_path: Path, number: int) -> None:
    options: Json = [
        {"host": NOBODY, "api_key": secret("a")},
        {"kubeconfig": kubeconfig(NOBODY, token=secret("a"))},
        {"host": NOBODY, "api_key": f"{secret('a')}\n{secret('b')}"},
    ][number]
    code, output = run("ansible", "localhost", "-m", CHECK, "-a", json.dumps(options), folder=tmp_path)
    assert code == 2 and ("no answer" in output or "no HTTP header" in output), output
    assert leaks(output, [SECRET]) == []


def test_no_secret_of_the_environment_of_ansible_is_shown(tmp_path: Path) -> None:
    environment = {"K8S_AUTH_HOST": NOBODY, "K8S_AUTH_API_KEY": f"{secret('a')}\n{secret('b')}", "K8S_AUTH_PASSWORD": secret("c")}
    code, output = run("ansible", "localhost", "-m", CHECK, folder=tmp_path, **environment)
    assert code == 2 and "no HTTP header may have" in output, output
    assert leaks(output, [SECRET]) == []
