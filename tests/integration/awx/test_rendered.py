# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file for infra.aap_configuration has the same objects as those that the playbook creates."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.awx.rules import schedule_mistakes, survey_mistakes
from tests.integration.awx.setup_run import set_up, set_up_cases
from tests.integration.roles.role_play import ansible_playbook
from tools.collection_version import current
from tools.paths import ROOT

ROLES = {
    "controller_credential_types": {"name", "description", "kind", "inputs", "injectors"},
    "controller_credentials": {"name", "description", "organization", "credential_type", "inputs", "update_secrets"},
    "controller_execution_environments": {"name", "description", "organization", "image", "credential", "pull"},
    "controller_projects": {
        *("name", "description", "organization", "scm_type", "scm_url", "scm_branch", "credential", "scm_update_on_launch"),
        "default_environment",
    },
    "controller_inventories": {"name", "description", "organization", "variables"},
    "controller_hosts": {"name", "inventory", "enabled", "variables"},
    "controller_groups": {"name", "inventory", "hosts"},
    "controller_notifications": {"name", "description", "organization", "notification_type", "notification_configuration"},
    "controller_templates": {
        *("name", "description", "organization", "project", "playbook", "inventory", "execution_environment", "credentials", "job_type"),
        *("job_tags", "timeout", "allow_simultaneous", "survey_enabled", "survey_spec", "notification_templates_error"),
        "related",
        *(f"ask_{name}_on_launch" for name in ("limit", "variables", "verbosity", "job_type", "tags", "skip_tags", "diff_mode")),
    },
    "controller_workflows": {
        *("name", "description", "organization", "inventory", "allow_simultaneous", "ask_limit_on_launch", "ask_variables_on_launch"),
        *("survey_enabled", "survey_spec", "simplified_workflow_nodes", "notification_templates_error", "notification_templates_approvals"),
        "related",
    },
    "controller_schedules": {"name", "description", "organization", "unified_job_template", "rrule", "enabled"},
}
"""The variables of the roles of infra.aap_configuration, and the keys of their entries that the roles read and the file may have.

The source are ``roles/controller_*/meta/argument_specs.yml`` and ``tasks/main.yml`` of https://github.com/redhat-cop/aap_configuration,
version 3.1.0-devel (commit 98333c4edf4c). ``test_aap_configuration.py`` runs these roles if there is a checkout of them.
"""

NODE_KEYS = {"identifier", "unified_job_template", "lookup_organization", "approval_node", "success_nodes", "failure_nodes", "always_nodes"}
"""The keys of ``simplified_workflow_nodes`` that ``tasks/add_workflows_schema.yml`` of ``controller_workflow_job_templates`` reads."""

SEARCHED = {"credential", "default_environment", "execution_environment", "inventory", "project", "organization", "unified_job_template"}
"""The keys with names of other objects. The modules also search for an empty name, and fail."""


KUBECONFIG = {"apiVersion": "v1", "clusters": None}
"""As of ``kubectl config view --raw --output json``: ansible-core 2.18 would make a mapping of this text."""

START = "DTSTART;TZID=UTC:20260101T000000"


class Loader(yaml.SafeLoader):
    """As Ansible, which knows a tag for texts that are no templates."""


Loader.add_constructor("!unsafe", lambda loader, node: loader.construct_scalar(node))


HOSTS = """
awx_setup_clusters: {prod: , "null": }
awx_setup_nodes:
  kube_control_plane: {n1: {ansible_host: 10.0.0.1, settings: {a: 1}}, "null": }
  kube_node: {n1: , n2: , n3: {}}
  etcd: {n1: {settings: {b: 2}}}
  calico_rr:
awx_setup_render_to: hosts.rendered.yml
"""
NIGHTS = (
    "DTSTART;TZID=UTC:20260101T000000 "
    "RRULE:FREQ=HOURLY;INTERVAL=1;BYDAY=MO,TU,WE,TH,FR;BYHOUR=22,23;BYMINUTE=0,10,20,30,40,50;BYSECOND=0 "
    "RRULE:FREQ=HOURLY;INTERVAL=1;BYDAY=TU,WE,TH,FR,SA;BYHOUR=0,1,2,3,4;BYMINUTE=0,10,20,30,40,50;BYSECOND=0"
)
LUNCH = {"days": "Mon,Wed", "times": "12:00-13:00", "time_zone": "Europe/Berlin"}


PRESETS: dict[str, tuple[dict[str, Any], str]] = {
    "night": ({"awx_setup_schedule_preset": "maintenance-window"}, NIGHTS),
    "weekend": (
        {"awx_setup_schedule_preset": "weekend", "awx_setup_schedule_minutes": 60},
        f"{START} RRULE:FREQ=HOURLY;INTERVAL=1;BYDAY=SA,SU;BYHOUR={','.join(map(str, range(24)))};BYMINUTE=0;BYSECOND=0",
    ),
    "own": (
        {"awx_setup_schedule_preset": "lunch", "awx_setup_schedule_presets": {"lunch": LUNCH}, "awx_setup_schedule_minutes": 30},
        "DTSTART;TZID=Europe/Berlin:20260101T000000 RRULE:FREQ=HOURLY;INTERVAL=1;BYDAY=MO,WE;BYHOUR=12;BYMINUTE=0,30;BYSECOND=0",
    ),
    "replaced": ({"awx_setup_schedule_presets": {"maintenance-window": LUNCH}}, f"{START} RRULE:FREQ=MINUTELY;INTERVAL=10"),
}
"""Variables, and the rule of their schedule."""

NAMES = ["on", "no", "night: late", "night #2", "Mittag \u00fc\U0001f319"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the file of an object of each kind, all.rendered.yml, and that of a bearer token, bearer.rendered.yml."""
    folder = tmp_path_factory.mktemp("rendered")
    (folder / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    return render(
        folder,
        {
            "all": {
                "awx_setup_credential": "kubeconfig",
                "awx_setup_kubeconfig_path": str(folder / "kubeconfig"),
                "awx_setup_nodes": {"kube_node": {"worker": {}}},
                "awx_setup_notification_type": "webhook",
                "awx_setup_notification_configuration": {"url": "http://127.0.0.1/"},
            },
            "bearer": {"awx_setup_credential": "bearer_token", "awx_setup_api_host": "https://10.0.0.1:6443", "awx_setup_api_token": "t"},
            "unverified": {
                "awx_setup_credential": "bearer_token",
                "awx_setup_api_host": "https://10.0.0.1:6443",
                "awx_setup_api_token": "t",
                "awx_setup_api_verify_ssl": False,
            },
        },
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the file of each preset, each of NAMES, and HOSTS: CASE.rendered.yml."""
    cases = {name: variables for name, (variables, _rule) in PRESETS.items()}
    for number, name in enumerate(NAMES):
        cases[f"name-{number}"] = {"awx_setup_schedule_preset": name, "awx_setup_schedule_presets": {name: LUNCH}}
    return render(tmp_path_factory.mktemp("presets"), cases, hosts=HOSTS)


def render(folder: Path, cases: dict[str, dict[str, Any]], **texts: str) -> Path:
    """Write the file of each case, CASE.rendered.yml. No controller answers."""
    rendered = {name: {**variables, "awx_setup_render_to": f"{name}.rendered.yml"} for name, variables in cases.items()}
    run = set_up_cases(None, folder, {**rendered, **texts})
    assert run.code == 0 and "Create the project" not in run.output, run.output
    return folder


@pytest.fixture
def file(folder: Path) -> Path:
    """The file with an object of each kind."""
    return folder / "all.rendered.yml"


def objects_of(files: Path, case: str) -> Any:
    return yaml.load((files / f"{case}.rendered.yml").read_text(), Loader)


def test_the_file_is_readable_only_by_its_owner_because_it_has_credentials(file: Path) -> None:
    (credential,) = yaml.load(file.read_text(), Loader)["controller_credentials"]
    assert file.stat().st_mode & 0o777 == 0o600 and yaml.safe_load(credential["inputs"]["kubeconfig"]) == KUBECONFIG
    assert credential["update_secrets"] is False, "the roles would replace the secret with each run"


def test_a_bearer_token_needs_no_credential_type_which_only_an_administrator_may_create(folder: Path) -> None:
    assert objects_of(folder, "bearer")["controller_credential_types"] == []


def test_only_an_explicit_variable_switches_the_verification_of_tls_off(folder: Path) -> None:
    verified = {case: objects_of(folder, case)["controller_credentials"][0]["inputs"]["verify_ssl"] for case in ("bearer", "unverified")}
    assert verified == {"bearer": True, "unverified": False}


def test_ansible_reads_the_variables_of_the_roles_and_keeps_the_templates_of_awx(file: Path, tmp_path: Path) -> None:
    play = [
        {
            "hosts": "localhost",
            "connection": "local",
            "gather_facts": False,
            "vars_files": [str(file)],
            "tasks": [
                {
                    "ansible.builtin.copy": {
                        "content": "{{ dict(names | zip(query('vars', *names))) | to_json }}",
                        "dest": str(tmp_path / "read.json"),
                    }
                }
            ],
            "vars": {"names": list(ROLES)},
        }
    ]
    (tmp_path / "play.yml").write_text(json.dumps(play))
    done = ansible_playbook(tmp_path / "play.yml", folder=tmp_path)
    assert done.code == 0, done.output
    read = json.loads((tmp_path / "read.json").read_text())
    for name, entries in read.items():
        assert entries and all(set(entry) <= ROLES[name] for entry in entries), name
    injectors = read["controller_credential_types"][0]["injectors"]
    assert injectors["file"] == {"template.kubeconfig": "{{ kubeconfig }}"}
    assert set(injectors["env"].values()) == {"{{ tower.filename.kubeconfig }}"}
    assert read["controller_inventories"][0]["variables"]["rescue_context"] == "{{ kube_context | default('') }}"
    assert len(read["controller_templates"]) == 6
    assert all(survey_mistakes(entry["survey_spec"]) == [] for entry in read["controller_templates"] + read["controller_workflows"])
    nodes = read["controller_workflows"][0]["simplified_workflow_nodes"]
    assert [node["identifier"] for node in nodes] == ["check", "approve", "rebalance", "verify"]
    assert all(set(node) <= NODE_KEYS for node in nodes)
    for entry in read["controller_templates"] + read["controller_workflows"]:
        assert {name: [item["name"] for item in items] for name, items in entry["related"].items()} == {
            name: entry[name] for name in ("notification_templates_error", "notification_templates_approvals") if name in entry
        }
        assert entry["related"]["notification_templates_error"]


def test_no_name_of_another_object_is_empty(file: Path) -> None:
    entries = [entry for entries in yaml.load(file.read_text(), Loader).values() for entry in entries]
    assert [entry for entry in entries if any(entry.get(key) == "" for key in SEARCHED)] == []
    assert any("default_environment" in entry for entry in entries)


def test_a_key_without_a_value_is_a_host_without_variables_or_a_group_without_hosts(files: Path) -> None:
    rendered = objects_of(files, "hosts")
    found = {(item["inventory"], item["name"]): item["variables"] for item in rendered["controller_hosts"]}
    assert found == {
        ("clusters", "prod"): {},
        ("clusters", "null"): {},
        ("nodes", "n1"): {"ansible_host": "10.0.0.1", "settings": {"a": 1, "b": 2}},
        ("nodes", "null"): {},
        ("nodes", "n2"): {},
        ("nodes", "n3"): {},
    }
    assert len(rendered["controller_hosts"]) == len(found)
    groups = {item["name"]: item["hosts"] for item in rendered["controller_groups"]}
    assert groups == {"kube_control_plane": ["n1", "null"], "kube_node": ["n1", "n2", "n3"], "etcd": ["n1"], "calico_rr": []}


def test_the_example_in_the_guide_is_accepted(tmp_path: Path) -> None:
    guide = (ROOT / "docs" / "awx.md").read_text()
    (example,) = re.findall(r"^```yaml\n# variables.yml\n(.*?)^```", guide, re.MULTILINE | re.DOTALL)
    (tmp_path / "variables.yml").write_text(example)
    (tmp_path / "clusters.kubeconfig").write_text("apiVersion: v1\n")
    given = {"vaulted_slack_token": "hidden", "awx_setup_kubeconfig_path": str(tmp_path / "clusters.kubeconfig")}
    run = set_up(None, tmp_path, "-e", "@variables.yml", awx_setup_image=None, awx_setup_render_to="controller.yml", **given)
    assert run.code == 0, run.output
    text = (tmp_path / "controller.yml").read_text()
    assert "token: hidden" in text and "kube_context: munich" in text and f"kube-scheduling-ee:{current(ROOT)}" in text


@pytest.mark.parametrize("case", PRESETS)
def test_a_preset_is_a_schedule_that_awx_saves(case: str, files: Path) -> None:
    (schedule,) = objects_of(files, case)["controller_schedules"]
    rule = PRESETS[case][1]
    assert schedule["rrule"] == rule and schedule_mistakes(rule) == []


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_the_name_of_a_preset_is_any_text(number: int, files: Path) -> None:
    (schedule,) = objects_of(files, f"name-{number}")["controller_schedules"]
    times = "FREQ=HOURLY;INTERVAL=1;BYDAY=MO,WE;BYHOUR=12;BYMINUTE=0,10,20,30,40,50;BYSECOND=0"
    assert schedule["rrule"] == f"DTSTART;TZID=Europe/Berlin:20260101T000000 RRULE:{times}"


def test_the_guide_has_the_schedule_of_the_preset() -> None:
    assert f"| `awx_setup_schedule_preset: maintenance-window` | `{NIGHTS}` |" in (ROOT / "docs" / "awx.md").read_text()


def test_the_file_has_no_other_variable(file: Path) -> None:
    assert set(yaml.load(file.read_text(), Loader)) == set(ROLES)
