# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of job templates as AWX starts them: with ansible-runner and the packages of the execution environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import yaml

from tests.integration.awx.controller import BEARER_TYPE, Controller
from tests.integration.awx.rules import Json, answer_mistakes, job_variables
from tools.paths import ROOT

AWX_VARIABLES = {f"{prefix}_{name}": value for prefix in ("awx", "tower") for name, value in {"job_id": 1, "user_name": "admin"}.items()}
"""Some of the variables that AWX adds to those of each job."""


@dataclass(frozen=True)
class Packages:
    """The virtual environment with the packages of the execution environment, and the folder of its collections."""

    venv: Path
    collections: Path


@dataclass(frozen=True)
class Job:
    """A job that has ended."""

    status: str
    output: str
    artifacts: Json
    """The data of set_stats in the event playbook_on_stats, which AWX keeps as the artifacts of the job."""
    variables: Json


class Launcher:
    """Starts jobs of one controller."""

    def __init__(self, served: Controller, packages: Packages, folder: Path) -> None:
        self._served, self._packages, self._folder = served, packages, folder
        self._jobs = 0

    def launch(
        self,
        template: str,
        answers: Mapping[str, Any] | None = None,
        *,
        artifacts: Mapping[str, Any] | None = None,
        limit: str = "",
        **prompts: str,
    ) -> Job:
        """Run a job with these answers of its survey, and wait for its end. ``artifacts`` are those of the job before in a workflow."""
        item = self._served.named("job_templates", template)
        survey = self._served.surveys[item["id"]]
        assert answer_mistakes(survey, answers or {}) == []
        asked = {"ask_limit_on_launch": limit, **{f"ask_{name}_on_launch": value for name, value in prompts.items()}}
        assert [name for name, value in asked.items() if value and not item[name]] == []
        variables = job_variables(json.loads(item["extra_vars"] or "{}"), survey, {**(answers or {}), **(artifacts or {})})
        self._jobs += 1
        private = self._folder / f"job-{self._jobs}"
        self._write_project(private / "project")
        self._write_inventory(private / "inventory", item["inventory"])
        environment = self._write_credentials(private, item)
        arguments = ["--tags", item["job_tags"]] if item["job_tags"] else []
        arguments += ["--limit", limit] if limit else []
        arguments += ["--check"] if prompts.get("job_type", item["job_type"]) == "check" else []
        return self._run(private, item["playbook"], variables, environment, arguments)

    def _write_project(self, project: Path) -> None:
        shutil.copytree(ROOT / "awx", project / "awx")
        shutil.copy(ROOT / "ansible.cfg", project)

    def _write_inventory(self, folder: Path, number: int) -> None:
        objects = self._served.objects
        hosts = [host for host in objects["hosts"].values() if host["inventory"] == number and host["enabled"]]
        groups = [group for group in objects["groups"].values() if group["inventory"] == number]
        content: Json = {
            "all": {
                "vars": yaml.safe_load(objects["inventories"][number]["variables"] or "{}"),
                "hosts": {host["name"]: yaml.safe_load(host["variables"] or "{}") for host in hosts},
                "children": {
                    group["name"]: {"hosts": {host["name"]: {} for host in self._served.linked(group, "hosts", "hosts")}}
                    for group in groups
                },
            }
        }
        folder.mkdir(parents=True)
        (folder / "hosts.json").write_text(json.dumps(content))

    def _write_credentials(self, private: Path, template: Json) -> dict[str, str]:
        """Write the files of the credentials as their types say, and return the environment variables."""
        environment: dict[str, str] = {}
        for credential in self._served.linked(template, "credentials", "credentials"):
            kind = self._served.objects["credential_types"][credential["credential_type"]]
            inputs = credential["inputs"]
            if kind["name"] == BEARER_TYPE:
                authority = private / "ca.crt"
                authority.write_text(inputs["ssl_ca_cert"])
                environment |= {
                    "K8S_AUTH_HOST": inputs["host"],
                    "K8S_AUTH_API_KEY": inputs["bearer_token"],
                    "K8S_AUTH_VERIFY_SSL": str(inputs["verify_ssl"]),
                    "K8S_AUTH_SSL_CA_CERT": str(authority),
                }
            engine = jinja2.Environment(undefined=jinja2.StrictUndefined)
            files: dict[str, str] = {}
            for name, text in kind["injectors"].get("file", {}).items():
                file = private / f"credential-{credential['id']}-{name}"
                file.write_text(engine.from_string(text).render(inputs))
                files[name.removeprefix("template.")] = str(file)
            injected = kind["injectors"].get("env", {})
            environment |= {
                name: engine.from_string(text).render({**inputs, "tower": {"filename": files}}) for name, text in injected.items()
            }
        return environment

    def _run(self, private: Path, playbook: str, variables: Json, environment: Mapping[str, str], arguments: list[str]) -> Job:
        (private / "env").mkdir()
        (private / "env" / "extravars").write_text(json.dumps({**variables, **AWX_VARIABLES}))
        # As ansible-core in a job, which has no terminal.
        (private / "env" / "envvars").write_text(json.dumps({**environment, "ANSIBLE_COLLECTIONS_PATH": str(self._packages.collections)}))
        (private / "env" / "cmdline").write_text(" ".join(arguments))
        command = [str(self._packages.venv / "bin" / "ansible-runner"), "run", str(private), "--playbook", playbook, "--ident", "job"]
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("K8S_AUTH_", "KUBE", "ANSIBLE_"))}
        inherited["PATH"] = f"{self._packages.venv / 'bin'}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(command, cwd=private, env=inherited, capture_output=True, text=True)
        ended = private / "artifacts" / "job"
        assert (ended / "status").exists(), done.stdout + done.stderr
        events = [json.loads(file.read_text()) for file in (ended / "job_events").glob("*.json")]
        found = [event["event_data"].get("artifact_data", {}) for event in events if event["event"] == "playbook_on_stats"]
        return Job((ended / "status").read_text(), done.stdout, found[0] if found else {}, variables)
