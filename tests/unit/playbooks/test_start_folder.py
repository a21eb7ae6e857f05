# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Relative paths start in the folder in which Ansible was started, and an error names the folder."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible_collections.kubernetes.core.plugins.action.k8s_info import ActionModule as CoreActionModule
from ansible_collections.onprem.kube_scheduling.plugins.filter.kubeconfig_paths import kubeconfig_paths
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils import kubeconfig_action
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.kubeconfig_action import ActionModule

from lab.layout import REPOSITORY
from tests.integration.roles.host_cases import play_cases
from tests.integration.roles.role_play import ansible_playbook
from tests.unit.playbooks.test_site_without_cluster import KUBECONFIG, stats_of

CONTENT = "apiVersion: v1\nkind: Config\n"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The start folder `start` and the folder `playbook` of a playbook, both with files. No variable names a cluster."""
    files = ("start/here", "start/sub/here", "start/both", "playbook/both", "playbook/files/near", "playbook/beside")
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    monkeypatch.chdir(tmp_path / "start")
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "K8S_AUTH_KUBECONFIG", "K8S_AUTH_HOST", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


PATHS = [
    ("here", "ROOT/start/here"),
    ("./here", "ROOT/start/here"),
    ("sub/../here", "ROOT/start/sub/../here"),
    ("sub/here:here", "ROOT/start/sub/here:ROOT/start/here"),
    ("both", "ROOT/start/both"),
    ("near", "ROOT/playbook/files/near"),
    ("beside", "ROOT/playbook/beside"),
    ("nowhere", "ROOT/start/nowhere"),
    ("/nowhere:here", "/nowhere:ROOT/start/here"),
    ("~/start/here", "~/start/here"),
    (CONTENT, CONTENT),
]


@pytest.mark.parametrize(("given", "expected"), PATHS)
def test_a_relative_path_of_a_variable_starts_in_the_start_folder(given: str, expected: str, folders: Path) -> None:
    assert kubeconfig_paths(given, str(folders / "playbook")) == expected.replace("ROOT", str(folders))


def test_a_link_is_not_resolved(folders: Path) -> None:
    (folders / "start" / "link").symlink_to(folders / "start" / "sub" / "here")
    assert kubeconfig_paths("link", str(folders / "playbook")) == f"{folders}/start/link"


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, ""),
        ({"KUBECONFIG": "here"}, "ROOT/start/here"),
        ({"KUBECONFIG": "nowhere:here:~/start/here:/nowhere"}, "ROOT/start/here:~/start/here"),
        ({"KUBECONFIG": "nowhere"}, "ROOT/start/nowhere"),
        ({"KUBECONFIG": "here", "K8S_AUTH_KUBECONFIG": "both"}, "ROOT/start/both"),
        ({"KUBECONFIG": "here", "K8S_AUTH_KUBECONFIG": "/absolute"}, ""),
        ({"KUBECONFIG": "/absolute:~/config"}, ""),
        ({"KUBECONFIG": CONTENT}, ""),
        # The other cluster has precedence over that of KUBECONFIG.
        ({"KUBECONFIG": "here", "K8S_AUTH_HOST": "https://127.0.0.1:1"}, ""),
        ({"KUBECONFIG": "here", "KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ""),
    ],
)
def test_without_a_variable_only_relative_paths_of_the_environment_are_given(
    environment: dict[str, str], expected: str, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert kubeconfig_paths("", str(folders / "playbook")) == expected.replace("ROOT", str(folders))


def action_of(folders: Path, *, transport: str = "local", become: object = None, **options: Any) -> ActionModule:
    """Return the action of a task, without Ansible's own parts."""
    action = ActionModule.__new__(ActionModule)
    action._task = SimpleNamespace(args=copy.deepcopy(options), get_ds=dict)
    shell = SimpleNamespace(env_prefix=lambda **shown: shown)
    action._connection = SimpleNamespace(transport=transport, become=become, _shell=shell)
    action._loader = SimpleNamespace(get_basedir=lambda: str(folders / "playbook"))
    return action


@pytest.mark.parametrize(
    ("of_task", "of_process", "place", "expected"),
    [
        ({}, {"KUBECONFIG": "nowhere:here"}, {}, {"KUBECONFIG": "ROOT/start/nowhere:ROOT/start/here"}),
        ({}, {"K8S_AUTH_KUBECONFIG": "here"}, {}, {"K8S_AUTH_KUBECONFIG": "ROOT/start/here"}),
        ({"KUBECONFIG": "beside"}, {"KUBECONFIG": "here"}, {}, {"KUBECONFIG": "ROOT/playbook/beside"}),
        ({"OTHER": "here"}, {"KUBECONFIG": "/absolute:~/config"}, {}, {"OTHER": "here"}),
        # Another host and another user do not get the variables of this process.
        ({"KUBECONFIG": "here"}, {}, {"transport": "ssh"}, {"KUBECONFIG": "here"}),
        ({}, {"KUBECONFIG": "here"}, {"become": "sudo"}, {}),
    ],
)
def test_a_module_on_the_controller_gets_absolute_paths_in_its_environment(
    of_task: dict[str, str],
    of_process: dict[str, str],
    place: dict[str, Any],
    expected: dict[str, str],
    folders: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(CoreActionModule, "_compute_environment_string", lambda _action, found: found.update(of_task))
    for name, value in of_process.items():
        monkeypatch.setenv(name, value)
    shown = action_of(folders, **place)._compute_environment_string()
    assert shown == {name: path.replace("ROOT", str(folders)) for name, path in expected.items()}


CONFIGS = ["here", "configmap:kube-system/a", "beside", "nowhere", "/absolute", "~/config", " "]
FOUND = ["ROOT/start/here", "configmap:kube-system/a", "ROOT/playbook/beside", "ROOT/start/nowhere", "/absolute", "~/config", " "]


@pytest.mark.parametrize(
    ("given", "transport", "expected"),
    [
        (CONFIGS, "local", FOUND),
        ("here,nowhere", "local", ["ROOT/start/here", "ROOT/start/nowhere"]),
        (CONFIGS, "ssh", CONFIGS),
        (None, "local", None),
        ([], "local", []),
    ],
)
def test_files_of_scheduler_config_start_in_the_start_folder(
    given: Any, transport: str, expected: Any, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CoreActionModule, "_compute_environment_string", lambda _action, _found: None)
    monkeypatch.setattr(CoreActionModule, "run", lambda action, _tmp, _variables: action._task.args)
    options = action_of(folders, transport=transport, scheduler_config=given).run()
    wanted = [entry.replace("ROOT", str(folders)) for entry in expected] if expected else expected
    assert options == {"scheduler_config": wanted}


def test_a_missing_kubernetes_core_is_an_error_of_the_task_with_the_versions_of_galaxy_yml(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubeconfig_action, "AUTH_ARG_SPEC", None)
    wanted = yaml.safe_load((REPOSITORY / "galaxy.yml").read_text())["dependencies"]["kubernetes.core"]
    install = f"ansible-galaxy collection install 'kubernetes.core:{wanted}'"
    with pytest.raises(AnsibleActionFail, match=f"{re.escape(install)}$"):
        action_of(folders).run()


@pytest.mark.plays
def test_playbooks_find_a_kubeconfig_in_the_start_folder(tmp_path: Path) -> None:
    """No API server answers, so the kubeconfig was read if the error names its server."""
    (tmp_path / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    cases = {"found": {"rebalance_kubeconfig": "kubeconfig"}, "missing": {"rebalance_kubeconfig": "nowhere"}}
    run = play_cases(REPOSITORY / "playbooks" / "rebalance.yml", cases, folder=tmp_path)
    numbers = stats_of(run, "kube_scheduling_rebalance")
    assert run.code == 2 and "API server https://127.0.0.1:1" in numbers["found"]["error"], run.output
    missing = numbers["missing"]["error"]
    assert "there is no file nowhere" in missing and f"A relative path starts in {tmp_path}, where Ansible was started" in missing

    verified = ansible_playbook(REPOSITORY / "playbooks" / "verify.yml", "-e", "site_kubeconfig=nowhere", folder=tmp_path)
    assert verified.code == 2 and f"{tmp_path}/nowhere" in stats_of(verified, "kube_scheduling_verify")["localhost"]["error"], (
        verified.output
    )
