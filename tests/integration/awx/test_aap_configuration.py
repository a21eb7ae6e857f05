# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real roles of infra.aap_configuration create the same objects from the file as the playbook.

The collection is on no registry that the tests use. AAP_CONFIGURATION names a folder with a checkout of it
(https://github.com/redhat-cop/aap_configuration); without it the test is skipped.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.awx.controller import REFERENCES, TOKEN, Controller, controller
from tests.integration.awx.rules import Json
from tests.integration.awx.setup_run import set_up
from tests.integration.awx.test_setup import KUBECONFIG, NODES, WEBHOOK
from tools.paths import COLLECTIONS

CHECKOUT = os.environ.get("AAP_CONFIGURATION", "")
EMPTY = ("", "{}", {}, None)
"""The values of a field that mean the same to AWX: not set. The roles send other ones of them than the playbook."""
PLAY = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "roles": ["infra.aap_configuration.dispatch"]}]

pytestmark = pytest.mark.skipif(not CHECKOUT, reason="not run: AAP_CONFIGURATION does not name a checkout of infra.aap_configuration")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the kubeconfig, the play, and the collection in the place where Ansible finds it."""
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    (tmp_path / "play.yml").write_text(json.dumps(PLAY))
    place = tmp_path / "collections" / "ansible_collections" / "infra"
    place.mkdir(parents=True)
    (place / "aap_configuration").symlink_to(Path(CHECKOUT).absolute())
    yield tmp_path


def run_roles(served: Controller, folder: Path) -> None:
    variables: Json = {"aap_hostname": served.url, "aap_token": TOKEN, "aap_configuration_async_delay": 1}
    # docs/awx.md says why.
    variables |= {"aap_configuration_enforce_defaults": True, "controller_dependency_check": False}
    variables["ansible_python_interpreter"] = sys.executable
    command = [str(Path(sys.executable).with_name("ansible-playbook")), "play.yml", "-e", "@controller.yml", "-e", json.dumps(variables)]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": f"{folder / 'collections'}:{COLLECTIONS}", "ANSIBLE_NOCOLOR": "true"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def objects_of(served: Controller) -> Json:
    """The objects, surveys and links with names in place of numbers."""
    names = {number: item.get("name") or item["identifier"] for items in served.objects.values() for number, item in items.items()}

    def shown(item: Json) -> Json:
        kept = {name: value for name, value in item.items() if name != "id" and value not in EMPTY}
        return {name: names[value] if name in REFERENCES else value for name, value in kept.items()}

    found: dict[str, Any] = {kind: {names[number]: shown(item) for number, item in items.items()} for kind, items in served.objects.items()}
    found["surveys"] = {names[number]: survey for number, survey in served.surveys.items()}
    found["links"] = {
        (names[one], relation): sorted(names[other] for other in others) for (one, relation), others in served.links.items() if others
    }
    return found


def differences(found: Json, expected: Json) -> list[str]:
    """The objects, and the fields of objects, that are in one of them only or have another value."""
    texts = []
    for kind in {**found, **expected}:
        for name in {**found.get(kind, {}), **expected.get(kind, {})}:
            one, other = found[kind].get(name), expected[kind].get(name)
            if isinstance(one, dict) and isinstance(other, dict):
                texts += [
                    f"{kind} {name} {key}: {one.get(key)!r}, {other.get(key)!r}"
                    for key in {**one, **other}
                    if one.get(key) != other.get(key)
                ]
            elif one != other:
                texts.append(f"{kind} {name}: {one!r}, {other!r}")
    return texts


def test_the_roles_create_the_objects_of_the_playbook(folder: Path) -> None:
    variables: Json = {
        "awx_setup_credential": "kubeconfig",
        "awx_setup_kubeconfig_path": str(folder / "kubeconfig"),
        "awx_setup_nodes": NODES,
        "awx_setup_machine_credential": "nodes",
        "awx_setup_notification_type": "webhook",
        "awx_setup_notification_configuration": WEBHOOK,
        "awx_setup_schedule_preset": "maintenance-window",
    }
    with controller() as by_playbook, controller() as by_roles:
        assert set_up(by_playbook, folder, **variables).code == 0
        rendered = set_up(None, folder, awx_setup_render_to="controller.yml", **variables)
        assert rendered.code == 0, rendered.output
        run_roles(by_roles, folder)
        expected = objects_of(by_playbook)
        assert differences(objects_of(by_roles), expected) == [] and len(expected["job_templates"]) == 6
        run_roles(by_roles, folder)
        assert differences(objects_of(by_roles), expected) == [], "a second run changes nothing"
