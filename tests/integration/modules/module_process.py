# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs a module of this collection in this process, or as a process of its own as Ansible does, and returns its result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.integration.modules.module_call import call_module
from tests.unit.support.documented_results import differences

REPOSITORY = Path(__file__).resolve().parents[3]
COLLECTIONS = REPOSITORY / ".venv" / "collections"
DOCUMENTED = ("k8s_apply_set", "k8s_cluster_identity", "k8s_spread_check", "k8s_rollout_restart", "scheduler_cluster", "scheduler_probe")
PACKAGE = "ansible_collections.onprem.kube_scheduling.plugins.modules"


def run_module(name: str, params: dict[str, Any], *, check_mode: bool = False, diff: bool = False) -> dict[str, Any]:
    """Return the result of the module, which runs in this process."""
    return _result(call_module(f"{PACKAGE}.{name}", _arguments(params, check_mode=check_mode, diff=diff), _environment()))


def start_module(
    name: str, params: dict[str, Any], *, check_mode: bool = False, diff: bool = False, env: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """The running module; its options have been passed to it."""
    process = subprocess.Popen(
        [sys.executable, "-m", f"{PACKAGE}.{name}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**_environment(), **(env or {})},
    )
    assert process.stdin is not None
    process.stdin.write(_arguments(params, check_mode=check_mode, diff=diff))
    process.stdin.close()
    process.stdin = None
    return process


def result_of(process: subprocess.Popen[str], *, timeout_s: float = 280) -> dict[str, Any]:
    """Return the JSON that the module printed. Fail with its standard error if the output is no JSON, or the exit code another one."""
    output, errors = process.communicate(timeout=timeout_s)
    result = _result(output, errors)
    assert process.returncode == bool(result.get("failed")), f"exit code {process.returncode} with {output}\n{errors}"
    return result


def _arguments(params: dict[str, Any], *, check_mode: bool, diff: bool) -> str:
    return json.dumps({"ANSIBLE_MODULE_ARGS": {**params, "_ansible_check_mode": check_mode, "_ansible_diff": diff}})


def _environment() -> dict[str, str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("K8S_AUTH_", "KUBECONFIG", "PYTHONPATH"))}
    return {**clean, "PYTHONPATH": str(COLLECTIONS)}


def _result(output: str, errors: str = "") -> dict[str, Any]:
    try:
        result: dict[str, Any] = json.loads(output)
    except json.JSONDecodeError:
        raise AssertionError(f"the module returned no JSON: {output}\n{errors}") from None
    return result


@dataclass(frozen=True)
class Modules:
    """The modules, connected to one cluster."""

    kubeconfig: Path

    def run(
        self, module: str, /, *, check_mode: bool = False, diff: bool = False, env: dict[str, str] | None = None, **params: Any
    ) -> dict[str, Any]:
        """Run a module in this process, or as a process with the variables of ``env``. Its result must agree with its documentation."""
        if env is None:
            result = run_module(module, {"kubeconfig": str(self.kubeconfig), **params}, check_mode=check_mode, diff=diff)
        else:
            result = result_of(self.start(module, check_mode=check_mode, diff=diff, env=env, **params))
        if module in DOCUMENTED:
            assert differences(module, result) == [], result
        return result

    def start(
        self, module: str, /, *, check_mode: bool = False, diff: bool = False, env: dict[str, str] | None = None, **params: Any
    ) -> subprocess.Popen[str]:
        """Start a module as a process and do not wait for it."""
        return start_module(module, {"kubeconfig": str(self.kubeconfig), **params}, check_mode=check_mode, diff=diff, env=env)

    def check(self, namespace: str, **params: Any) -> dict[str, Any]:
        """k8s_spread_check over one namespace."""
        return self.run("k8s_spread_check", namespaces=[namespace], **params)

    def restart(self, **params: Any) -> dict[str, Any]:
        """k8s_rollout_restart; ``check_mode`` and ``env`` as in ``run``."""
        return self.run("k8s_rollout_restart", **params)
