# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/awx.yml creates objects that AWX accepts, and changes nothing in a second run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from tests.integration.awx.controller import BEARER_TYPE, PASSWORD, USER, Controller, controller
from tests.integration.awx.rules import Json
from tests.integration.awx.setup_run import IMAGE, set_up, set_up_cases
from tests.integration.roles.host_cases import CasesRun
from tests.integration.roles.role_play import RoleRun
from tools import tables
from tools.paths import ROOT

KUBECONFIG = "apiVersion: v1\nkind: Config\n"
WEBHOOK = {
    "url": "http://127.0.0.1/",
    "http_method": "POST",
    "headers": {},
    "username": "",
    "password": "hidden",
    "disable_ssl_verification": False,
}
NODES = {
    "kube_control_plane": {"master": {"ansible_host": "10.0.0.1"}},
    "kube_node": {"master": {}, "worker": {"ansible_port": 22}},
    "etcd": {"master": None, "witness": None},
    "calico_rr": None,
}
LUNCH = {"days": "Mon-Fri", "times": "12:00-13:00", "time_zone": "UTC"}
TEMPLATES = {
    "spread-check": "awx/project/rebalance.yml",
    "rebalance": "awx/project/rebalance.yml",
    "spread-verify": "awx/project/spread_verify.yml",
    "critical-rescue": "awx/project/rescue.yml",
    "scheduler-profile": "awx/project/scheduler.yml",
    "site": "awx/project/site.yml",
}


class Made(NamedTuple):
    """The controller after a run with these variables."""

    served: Controller
    run: RoleRun
    folder: Path
    variables: dict[str, Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """A run with everything that the variables can name."""
    folder = tmp_path_factory.mktemp("awx")
    (folder / "kubeconfig").write_text(KUBECONFIG)
    variables: dict[str, Any] = {
        "awx_setup_credential": "kubeconfig",
        "awx_setup_kubeconfig_path": str(folder / "kubeconfig"),
        "awx_setup_clusters": {
            "berlin": {"kube_context": "b"},
            "munich": {"kube_context": "m", "rebalance_namespaces": ["shop"]},
            "prague": None,
        },
        "awx_setup_nodes": NODES,
        "awx_setup_machine_credential": "nodes",
        "awx_setup_notification_type": "webhook",
        "awx_setup_notification_configuration": WEBHOOK,
        "awx_setup_schedule_windows": "Mon-Fri 22:00-05:00 Europe/Berlin",
    }
    with controller() as served:
        yield Made(served, set_up(served, folder, **variables), folder, variables)


def test_a_run_creates_what_the_variables_name_and_shows_no_secret(made: Made) -> None:
    assert made.run.code == 0, made.run.output
    assert {request.method for request in made.served.writes()} == {"POST"}
    assert "kind: Config" not in made.run.output and "hidden" not in made.run.output


def test_a_second_run_with_a_password_in_place_of_the_token_changes_nothing(made: Made) -> None:
    writes = len(made.served.writes())
    password = {"CONTROLLER_USERNAME": USER, "CONTROLLER_PASSWORD": PASSWORD}
    second = set_up(made.served, made.folder, connection=password, **made.variables)
    assert second.code == 0 and second.changed == 0, second.output
    assert len(made.served.writes()) == writes
    # A token that a module has made is deleted again.
    tokens = [request.method for request in made.served.requests if "/tokens/" in request.path]
    assert tokens.count("POST") == tokens.count("DELETE") > 0


def test_each_job_template_has_its_playbook_survey_and_limits(made: Made) -> None:
    assert {item["name"]: item["playbook"] for item in made.served.objects["job_templates"].values()} == TEMPLATES
    for item in made.served.objects["job_templates"].values():
        assert item["survey_enabled"] and made.served.surveys[item["id"]]["spec"]
        assert 0 < item["timeout"] <= 14400 and not item["allow_simultaneous"]
        assert item["ask_limit_on_launch"] and item["ask_variables_on_launch"]
        assert made.served.objects["execution_environments"][item["execution_environment"]]["image"] == IMAGE["awx_setup_image"]
        (notification,) = made.served.linked(item, "notification_templates_error", "notification_templates")
        assert notification["notification_configuration"] == WEBHOOK
    check = made.served.named("job_templates", "spread-check")
    assert check["job_tags"] == "check" and not check["ask_tags_on_launch"] and not check["ask_job_type_on_launch"]


def test_templates_for_nodes_have_the_machine_credential_and_the_others_have_not(made: Made) -> None:
    with_nodes = {}
    for item in made.served.objects["job_templates"].values():
        inventory = made.served.objects["inventories"][item["inventory"]]["name"]
        with_nodes[item["name"]] = (inventory, sorted(found["name"] for found in made.served.linked(item, "credentials", "credentials")))
    of_cluster, of_nodes = ("clusters", ["kube-scheduling"]), ("nodes", ["kube-scheduling", "nodes"])
    assert with_nodes == {name: of_nodes if name in ("site", "scheduler-profile") else of_cluster for name in TEMPLATES}


def declared_options() -> dict[str, Json]:
    """Return the options of the playbooks and of the roles that the surveys ask for."""
    found: dict[str, Json] = {}
    for role in ("extended_scheduler", "service_image", "spread_cronjob"):
        found |= yaml.safe_load((ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text())["argument_specs"]["main"]["options"]
    for playbook in ("rebalance", "rescue", "site"):
        found |= tables.variables(playbook)[f"__{playbook}_argument_spec"]
    return found


def test_each_question_has_the_default_and_the_choices_of_its_variable_and_needs_no_answer(made: Made) -> None:
    options, asked = declared_options(), 0
    for survey in made.served.surveys.values():
        for question in survey["spec"]:
            asked += 1
            option = options[question["variable"].removeprefix("survey_")]
            default = option.get("default")
            if option["type"] == "list":
                assert question["default"].splitlines() == (default or [])
            elif option["type"] == "bool":
                assert question["default"] == str(default or False).lower()
            elif option["type"] == "int" and default is not None:
                assert (question["type"], question["default"]) == ("integer", default)
            else:
                assert question["default"] == ("" if default is None else default)
            choices = ["true", "false"] if option["type"] == "bool" else option.get("choices")
            assert question.get("choices") == choices and not question["required"]
    assert asked > 80


def test_each_list_of_a_survey_is_read_by_the_playbook_of_its_template_and_no_other_one(made: Made) -> None:
    for item in made.served.objects["job_templates"].values():
        asked = {question["variable"] for question in made.served.surveys[item["id"]]["spec"]}
        text = (ROOT / item["playbook"]).read_text()
        read = {word for word in text.replace("{", " ").split() if word.startswith("survey_")}
        assert read == {name for name in asked if name.startswith("survey_")}, item["name"]


def test_the_workflow_waits_for_an_approval_and_always_verifies(made: Made) -> None:
    served = made.served
    nodes = {node["identifier"]: node for node in served.objects["workflow_job_template_nodes"].values()}
    jobs = {name: served.objects["job_templates"].get(node["unified_job_template"], {}).get("name") for name, node in nodes.items()}
    assert jobs == {"check": "spread-check", "approve": None, "rebalance": "rebalance", "verify": "spread-verify"}
    links = {
        (name, relation, other["identifier"])
        for name, node in nodes.items()
        for relation in ("success_nodes", "failure_nodes", "always_nodes")
        for other in served.linked(node, relation, "workflow_job_template_nodes")
    }
    assert links == {
        ("check", "success_nodes", "approve"),
        ("approve", "success_nodes", "rebalance"),
        ("rebalance", "always_nodes", "verify"),
    }
    (approval,) = served.objects["workflow_approval_templates"].values()
    assert nodes["approve"]["unified_job_template"] == approval["id"] and approval["timeout"] == 14400
    workflow = served.named("workflow_job_templates", "spread-with-approval")
    assert len(served.linked(workflow, "notification_templates_approvals", "notification_templates")) == 1


def test_the_schedule_is_in_the_window_and_its_template_needs_no_answer(made: Made) -> None:
    (schedule,) = made.served.objects["schedules"].values()
    assert schedule["enabled"] and schedule["unified_job_template"] == made.served.named("job_templates", "rebalance")["id"]
    assert schedule["rrule"].startswith("DTSTART;TZID=Europe/Berlin:") and schedule["rrule"].count("RRULE:") == 2


def test_hosts_have_their_variables_and_groups(made: Made) -> None:
    hosts = {host["name"]: json.loads(host["variables"]) for host in made.served.objects["hosts"].values()}
    assert hosts == {
        "berlin": {"kube_context": "b"},
        "munich": {"kube_context": "m", "rebalance_namespaces": ["shop"]},
        "prague": {},
        "master": {"ansible_host": "10.0.0.1"},
        "worker": {"ansible_port": 22},
        "witness": {},
    }
    groups = {
        group["name"]: {host["name"] for host in made.served.linked(group, "hosts", "hosts")}
        for group in made.served.objects["groups"].values()
    }
    assert groups == {
        "kube_control_plane": {"master"},
        "kube_node": {"master", "worker"},
        "etcd": {"master", "witness"},
        "calico_rr": set(),
    }


def test_a_bearer_token_is_a_credential_of_the_built_in_type_and_other_names_have_the_prefix(tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text("authority")
    with controller() as served:
        run = set_up(
            served,
            tmp_path,
            awx_setup_credential="bearer_token",
            awx_setup_api_host="https://10.0.0.1:6443",
            awx_setup_api_token="secret",
            awx_setup_api_ca_path=str(tmp_path / "ca.crt"),
            awx_setup_prefix="staging-",
            awx_setup_project_folder="",
        )
        # Without the folder, the server does not find the playbook. AWX would read another repository.
        assert "Playbook not found for project." in run.in_one_line
        credential = served.named("credentials", "staging-kube-scheduling")
        assert served.objects["credential_types"][credential["credential_type"]]["name"] == BEARER_TYPE
        assert credential["inputs"] == {
            "host": "https://10.0.0.1:6443", "bearer_token": "secret", "verify_ssl": True, "ssl_ca_cert": "authority"
        }  # fmt: skip
        assert "secret" not in run.output.replace("secrets", "")
        # It would need an administrator.
        assert not any(item["name"].endswith("kubeconfig file") for item in served.objects["credential_types"].values())
        made = {
            kind: {item["name"] for item in items.values()} - {"Default", "Machine", "nodes", BEARER_TYPE}
            for kind, items in served.objects.items()
        }
        assert all(name.startswith("staging-") for kind, names in made.items() if kind not in ("hosts", "groups") for name in names)


PRESETS = {
    "lunch": {"days": "Mon-Fri", "times": "12:00-13:00"},
    "maintenance-window": dict.fromkeys(LUNCH, ""),
    "dinner": {**LUNCH, "time_zone": " "},
}
WRONG: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "many": (
        {
            "awx_setup_image": None,
            "awx_setup_credential": "bearer_token",
            "awx_setup_typo": 1,
            "awx_setup_schedule_minutes": 0,
            "awx_setup_schedule_preset": "night",
            "awx_setup_schedule_presets": PRESETS,
            "awx_setup_clusters": {"prod": "x"},
            "awx_setup_nodes": {"kube_node": {"n1": ["x"]}, "etcd": ["n1", "n2"]},
        },
        {
            "no image": "missing required arguments: awx_setup_image",
            "no API server": "awx_setup_api_host and awx_setup_api_token are not both set",
            "unknown variable": "There is no variable awx_setup_typo. The variables are awx_setup_",
            "no minutes": "awx_setup_schedule_minutes is 0: ",
            "unknown preset": "awx_setup_schedule_preset is night: it must be one of always, maintenance-window",
            "preset without a time zone": "awx_setup_schedule_presets has lunch with other values",
            "empty preset": "awx_setup_schedule_presets has maintenance-window with other values than ",
            "empty time zone": "awx_setup_schedule_presets has dinner with other values than days, times and time_zone, or with an empty",
            "wrong cluster": "awx_setup_clusters: the value of prod is no mapping of variables: "
            'write "prod": {KEY: VALUE}, or "prod": {} for a host',
            "wrong node": "awx_setup_nodes: the value of n1 in kube_node is no mapping of variables: "
            'write "n1": {KEY: VALUE}, or "n1": {} for',
            "wrong group": 'awx_setup_nodes: the value of etcd is no mapping of hosts: write "etcd": {HOST: {KEY: VALUE}}, or {HOST: {}}',
        },
    ),
    "others": (
        {
            "awx_setup_credential": "kubeconfig",
            "awx_setup_schedule_preset": "weekend",
            "awx_setup_schedule_windows": "Mon 01:00-02:00 UTC",
            "awx_setup_schedule_presets": [LUNCH],
        },
        {
            "no kubeconfig": "awx_setup_kubeconfig_path is not set: name the kubeconfig",
            "list of presets": "which is no dictionary: write awx_setup_schedule_presets: {KEY: VALUE} in a file",
        },
    ),
    "preset-and-windows": (
        {"awx_setup_schedule_preset": "weekend", "awx_setup_schedule_windows": "Mon 01:00-02:00 UTC"},
        {"preset and windows": "awx_setup_schedule_preset and awx_setup_schedule_windows are both set"},
    ),
    "kubeconfig": (
        {"awx_setup_credential": "kubeconfig", "awx_setup_kubeconfig_path": "nowhere"},
        {"missing kubeconfig": "nowhere"},
    ),
    "windows": ({"awx_setup_schedule_windows": "at night"}, {"wrong windows": "'at night' is not days"}),
    "minutes": ({"awx_setup_schedule_minutes": 1441}, {"many minutes": "it must be 1 to 1440"}),
    "times": ({"awx_setup_schedule_presets": {"lunch": {**LUNCH, "times": "noon"}}}, {"wrong times": "'noon' is not a range of times"}),
    "zone": ({"awx_setup_schedule_presets": {"lunch": {**LUNCH, "time_zone": "Europe/Atlantis"}}}, {"unknown zone": "Europe/Atlantis"}),
}
"""Variables of a host, and the text for each mistake in them. A host has several mistakes if one message names all of them."""

WRONG_AS_A_WHOLE = {"whole-text": "text", "whole-list": ["n1"], "whole-number": 1, "whole-bool": True}
WRONG_HOSTS = f"""
awx_setup_typo: 1
awx_setup_schedule_presets: {{on: {json.dumps(LUNCH)}}}
awx_setup_clusters:
  {{text: s3cret, list: '[]', "no": no, 0: 0.0, empty: '', day: 2026-01-01, unsafe: !unsafe 'a}}}}', none: , right: {{kube_context: c}}}}
awx_setup_nodes:
  text: '{{"n1": {{"password": "s3cret"}}}}'
  1: [{{n1: {{password: s3cret}}}}]
  "off": off
  none:
  nodes: {{text: '{{"a": 1}}', 2: 3, list: [], none: , right: {{items: 1}}}}
"""


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> CasesRun:
    """A run in which the variables of each host are wrong."""
    cases: dict[str, dict[str, Any] | str] = {host: variables for host, (variables, _texts) in WRONG.items()}
    for host, value in WRONG_AS_A_WHOLE.items():
        cases[host] = {"awx_setup_clusters": value, "awx_setup_nodes": value, "awx_setup_schedule_preset": "night"}
    with controller() as served:
        run = set_up_cases(served, tmp_path_factory.mktemp("refused"), cases | {"yaml": WRONG_HOSTS})
        assert served.requests == [], "wrong variables are refused before the first request"
    assert run.code == 2, run.output
    return run


@pytest.mark.parametrize(
    ("host", "text"), [pytest.param(host, text, id=case) for host, (_given, texts) in WRONG.items() for case, text in texts.items()]
)
def test_wrong_variables_are_refused_before_the_first_request(host: str, text: str, refused: CasesRun) -> None:
    assert text in refused.failure(host), refused.failure(host)


def test_each_wrong_host_and_group_is_named_together_with_the_other_mistakes(refused: CasesRun) -> None:
    failure = refused.failure("yaml")
    assert "There is no variable awx_setup_typo" in failure
    assert re.findall(r"(awx_setup_\w+: the value of .*) is no mapping of (variables|hosts): write", failure) == [
        *((f"awx_setup_clusters: the value of {host}", "variables") for host in ("text", "list", "no", "0", "empty", "day", "unsafe")),
        *((f"awx_setup_nodes: the value of {group}", "hosts") for group in ("text", "1", "off")),
        *((f"awx_setup_nodes: the value of {host} in nodes", "variables") for host in ("text", "2", "list")),
    ]
    assert "s3cret" not in refused.output, "a value may be a password"


@pytest.mark.parametrize("host", WRONG_AS_A_WHOLE)
def test_hosts_and_groups_that_are_wrong_as_a_whole_do_not_hide_other_mistakes(host: str, refused: CasesRun) -> None:
    for text in ("awx_setup_clusters: {KEY: VALUE}", "awx_setup_nodes: {KEY: VALUE}", "awx_setup_schedule_preset is night"):
        assert text in refused.failure(host), refused.failure(host)


def test_a_name_of_a_preset_that_yaml_does_not_read_as_text_is_refused(refused: CasesRun) -> None:
    text = "awx_setup_schedule_presets has the name True, which is no text"
    assert text in refused.failure("yaml"), refused.failure("yaml")


def test_a_wrong_token_ends_the_run_with_the_first_object(tmp_path: Path) -> None:
    with controller() as served:
        run = set_up(served, tmp_path, connection={"CONTROLLER_OAUTH_TOKEN": "wrong"})
        assert run.code == 2 and "Invalid authentication credentials" in run.output and served.requests == []
