# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The derived image of docs/add-an-agent.md has the agent. Its Containerfile is carried out in a fresh Python environment."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.interface import LabelMatch, Rate
from ansible_collections.onprem.kube_scheduling.services.extender.sources.prometheus.promql import time_text, value_text

from tests.unit.services.extender.agents.image_folders import ImageFolder
from tests.unit.services.extender.agents.test_add_an_agent import COMMANDS, FILES, GUIDE
from tests.unit.services.extender.extender_objects import names_body, scores_in
from tests.unit.services.extender.sources.prometheus_server import NOW_S, Server
from tests.unit.services.extender.test_program import ask, program, wait_for

pytestmark = pytest.mark.ci_more  # pip makes an environment

BASE = "registry.example.org/kube-scheduling/services:1.0.0"
EXTENDER = "ansible_collections.onprem.kube_scheduling.services.extender"
CHECK = ("python", "-m", EXTENDER, "--config", "config.yaml", "--check-config")
INSTALLED = "import importlib.metadata, json; print(json.dumps([one.name for one in importlib.metadata.distributions()]))"


@pytest.fixture(scope="module")
def mounted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the files of the guide that are no part of the image."""
    folder = tmp_path_factory.mktemp("mounted")
    for name in ("config.yaml", "recording.jsonl"):
        (folder / name).write_text(FILES[name], encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> ImageFolder:
    return ImageFolder(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def derived(tmp_path_factory: pytest.TempPathFactory) -> ImageFolder:
    context = tmp_path_factory.mktemp("context")
    for name, content in FILES.items():
        (context / name).write_text(content, encoding="utf-8")
    image = ImageFolder(tmp_path_factory.mktemp("derived"))
    (command,) = re.findall(r"^pip (install --target .*)$", GUIDE, re.MULTILINE)
    answer = image.run("python", "-m", "pip", *shlex.split(command), folder=context)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert image.build(FILES["Containerfile"], context, {"BASE": BASE}) == BASE
    return image


def test_the_base_image_has_neither_the_agent_nor_ansible(base: ImageFolder, mounted: Path) -> None:
    answer = base.run(*CHECK, folder=mounted)
    assert answer.returncode == 2 and "there is no agent quiet_disks" in answer.stderr
    names = set(json.loads(base.run("python", "-c", INSTALLED).stdout))
    assert "msgspec" in names and not {"ansible-core", "pytest", "quiet-disks"} & names


@pytest.mark.parametrize(("command", "output"), COMMANDS)
def test_a_command_of_the_guide_has_its_output_in_the_derived_image(derived: ImageFolder, mounted: Path, command: str, output: str) -> None:
    answer = derived.run(*shlex.split(command), folder=mounted)
    assert (answer.returncode, answer.stderr, answer.stdout) == (0, "", output)


def test_the_entry_point_of_the_package_is_in_the_derived_image(derived: ImageFolder) -> None:
    code = "from importlib.metadata import entry_points; print(*entry_points(group='onprem_kube_scheduling.agents'))"
    assert "value='quiet_disks:QuietDisks'" in derived.run("python", "-c", code).stdout


def test_the_extender_in_the_derived_image_scores_with_the_agent(derived: ImageFolder, tmp_path: Path) -> None:
    server = Server()
    busy = Rate("node_disk_io_time_seconds_total", 300, (LabelMatch("device", "nvme.*"),))
    labels = [{"instance": f"{name}:9100", "device": "nvme0n1"} for name in ("idle", "busy")]
    server.vectors[value_text(busy)] = [(labels[0], "0"), (labels[1], "1")]
    server.vectors[time_text(busy, "instance")] = [(one, str(NOW_S)) for one in labels]
    file = tmp_path / "config.yaml"
    settings = FILES["config.yaml"].replace("http://127.0.0.1:9090", server.url).replace("  kubernetes: {}\n", "")
    file.write_text(f"listen: 127.0.0.1:0\nstatus_address: 127.0.0.1:0\n{settings}", encoding="utf-8")
    with program(file, python=derived.python, env=derived.environment) as running:
        wait_for(lambda: ask(running.status_address, "GET", "/readyz").startswith(b"ok"))
        body = names_body(["idle", "busy"], scheduler="quiet-disks")
        assert scores_in(ask(running.address, "POST", "/scheduler/prioritize", body)) == {"idle": 10, "busy": 0}
    server.stop()
