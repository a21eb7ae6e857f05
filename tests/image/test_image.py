# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image runs each program without root, without a network and without a writable file system, and has nothing that they do not need."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.__main__ import PROGRAMS

from tests.image.role import Role
from tests.unit.services.extender.agents.test_add_an_agent import FILES, GUIDE
from tests.unreachable_cluster import KUBECONFIG
from tools import service_image

RESTRICTED = ("--pull=never", "--rm", "--read-only", "--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges")
MAX_COMPRESSED_BYTES = 20_000_000
"""The limit for the layers above the base image. docs/service-image.md has the measured size and its parts."""

EXTENDER = """
sources:
  prometheus: {urls: ["http://127.0.0.1:9090"]}
  kubernetes: {kubeconfig: /etc/kube-scheduling/kubeconfig}
profiles:
  all:
    agents: [{name: network_traffic}, {name: safe_overload}, {name: pigeon}, {name: reward}]
"""
SCORE = """
import json, time, urllib.request
pod = {"metadata": {"name": "web", "namespace": "default", "uid": "1"}, "spec": {"schedulerName": "all"}}
body = json.dumps({"Pod": pod, "NodeNames": ["node-a", "node-b"]}).encode()
request = urllib.request.Request("http://127.0.0.1:8080/scheduler/prioritize", body, {"Content-Type": "application/json"})
end = time.monotonic() + 60
while True:
    try:
        print(urllib.request.urlopen(request, timeout=10).read().decode())
        break
    except OSError:
        if time.monotonic() > end:
            raise
        time.sleep(0.2)
"""
DERIVED = "kube-scheduling.lab/services-with-quiet-disks:1.0.0"
LOADED = re.compile(r"^# code object from '?(/opt/kube-scheduling/[^'\n]+?)'?$", re.MULTILINE)
"""A line of Python's verbose output. It names a file with byte code, or a source that is compiled."""


@pytest.fixture(scope="module")
def image(base: str, archives: Path, node: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name of the image, which the role has built."""
    answer = Role(base=base, archives=archives, node=node, folder=tmp_path_factory.mktemp("role")).run()  # type: ignore[arg-type]
    assert answer.code == 0, answer.output
    reference = str(answer.reference).partition("@")[0]
    docker("load", "--input", str(archive_of(reference, archives)))
    yield reference
    docker("rmi", reference)


def archive_of(reference: str, archives: Path) -> Path:
    (archive,) = archives.glob(f"*{reference.rpartition(':')[2]}*.tar")
    return archive


def docker(*arguments: str) -> str:
    answer = subprocess.run(["docker", *arguments], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def python(image: str, program: str) -> str:
    """The output of a Python program in the image."""
    return docker("run", *RESTRICTED, "--entrypoint=python3", image, "-c", program)


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_program_prints_its_help(image: str, name: str) -> None:
    assert f"services.{name}" in docker("run", *RESTRICTED, image, name, "--help")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The option of docker that mounts the settings of the programs."""
    folder = tmp_path_factory.mktemp("settings")
    (folder / "config.yml").write_text(EXTENDER)
    (folder / "kubeconfig").write_text(KUBECONFIG)
    folder.chmod(0o755)
    return f"--volume={folder}:/etc/kube-scheduling:ro"


def test_the_extender_loads_all_of_its_agents(image: str, settings: str) -> None:
    answer = docker("run", *RESTRICTED, settings, image, "extender", "--config=/etc/kube-scheduling/config.yml", "--check-config")
    assert "config.yml can be used" in answer


@pytest.fixture
def derived(image: str, tmp_path: Path) -> Iterator[str]:
    """The image that docs/add-an-agent.md builds from the one of the services. Its wheels are in a folder, and the build has no network."""
    for name, content in FILES.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    (install,) = re.findall(r"^pip (install --target .*)$", GUIDE, re.MULTILINE)
    wheels = service_image.build_wheels(Path(sys.executable))
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command = [sys.executable, "-m", "pip", *shlex.split(install)]
    answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    docker("build", "--network=none", f"--file={tmp_path}/Containerfile", f"--build-arg=BASE={image}", f"--tag={DERIVED}", str(tmp_path))
    yield DERIVED
    docker("rmi", DERIVED)


def test_a_derived_image_has_the_agent_of_the_guide_and_the_image_has_not(image: str, derived: str, tmp_path: Path) -> None:
    folder = tmp_path / "settings"
    folder.mkdir()
    (folder / "config.yaml").write_text(FILES["config.yaml"], encoding="utf-8")
    check = ("extender", "--config=/etc/kube-scheduling/config.yaml", "--check-config")
    found = {}
    for name in (derived, image):
        command = ["docker", "run", *RESTRICTED, f"--volume={folder}:/etc/kube-scheduling:ro", name, *check]
        found[name] = subprocess.run(command, capture_output=True, text=True)
    assert found[derived].returncode == 0 and "profile quiet-disks: quiet_disks (weight 1)" in found[derived].stdout, found
    assert found[image].returncode == 2 and "there is no agent quiet_disks" in found[image].stderr, found


def test_it_runs_as_a_user_without_a_name_and_without_root(image: str) -> None:
    assert python(image, "import os; print(os.getuid(), os.getgid(), os.geteuid())").split() == ["65532", "65532", "65532"]


def test_it_has_neither_ansible_nor_pip_nor_tests(image: str) -> None:
    names = json.loads(
        python(image, "import importlib.metadata, json; print(json.dumps([one.name for one in importlib.metadata.distributions()]))")
    )
    assert {"msgspec", "numpy", "prometheus-client"} <= {name.lower().replace("_", "-") for name in names}
    assert not {"ansible-core", "pip", "pytest", "kubernetes", "setuptools"} & set(names)
    files = python(image, "from pathlib import Path; print(*Path('/opt/kube-scheduling').rglob('*'), sep='\\n')").splitlines()
    assert [file for file in files if "/tests/" in file or file.endswith((".pyi", ".c", ".h"))] == []


def test_each_module_that_a_program_imports_has_byte_code_because_none_can_be_written(image: str, settings: str) -> None:
    runs = [
        ("rebalancer", "--kubeconfig=/etc/kube-scheduling/kubeconfig"),
        ("rescuer", "--kubeconfig=/etc/kube-scheduling/kubeconfig", "--check-config"),
        ("extender", "--config=/etc/kube-scheduling/config.yml", "--check-config"),
    ]
    for arguments in runs:
        command = ["docker", "run", *RESTRICTED, settings, "--env=PYTHONVERBOSE=1", image, *arguments]
        loaded = LOADED.findall(subprocess.run(command, capture_output=True, text=True).stderr)
        assert len(loaded) > 100 and without_byte_code(loaded) == [], arguments


def test_the_extender_scores_nodes(image: str, settings: str) -> None:
    given = (settings, "--env=PYTHONVERBOSE=1", image, "extender", "--config=/etc/kube-scheduling/config.yml")
    container = docker("run", "--detach", *(option for option in RESTRICTED if option != "--rm"), *given).strip()
    try:
        answer = json.loads(docker("exec", container, "python3", "-c", SCORE))
        assert [score["Host"] for score in answer] == ["node-a", "node-b"] and all(0 <= score["Score"] <= 10 for score in answer)
        logged = subprocess.run(["docker", "logs", container], capture_output=True, text=True).stderr
        assert without_byte_code(LOADED.findall(logged)) == []
    finally:
        docker("rm", "--force", container)


def without_byte_code(files: list[str]) -> list[str]:
    """The sources that Python has compiled, among the files that it has loaded from the folder of the libraries."""
    return [file for file in files if not file.endswith(".pyc")]


def test_numpy_calculates_although_the_symbols_of_its_libraries_are_removed(image: str) -> None:
    program = (
        "import numpy as np; print(np.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 4.0]).tolist(), "
        "np.linalg.svd(np.eye(3), compute_uv=False).tolist(), np.fft.fft([1, 0]).real.tolist(), "
        "np.random.default_rng(1).integers(1, 2), (np.ones((200, 200)) @ np.ones((200, 200))).sum())"
    )
    assert python(image, program).strip() == "[1.0, 1.0] [1.0, 1.0, 1.0] [1.0, 1.0] 1 8000000.0"


def test_it_has_the_version_of_the_collection_and_labels(image: str) -> None:
    version = docker("run", *RESTRICTED, image, "--version").strip()
    labels = json.loads(docker("image", "inspect", "--format={{json .Config.Labels}}", image))
    assert image.startswith(f"kube-scheduling.onprem/services:{version}-")
    assert labels["org.opencontainers.image.version"] == version and labels["org.opencontainers.image.licenses"] == "GPL-3.0-or-later"


def test_the_layers_above_the_base_image_are_small(image: str, base: str, archives: Path, capsys: pytest.CaptureFixture[str]) -> None:
    below = json.loads(docker("image", "inspect", "--format={{json .RootFS.Layers}}", base))
    sizes = []
    with tarfile.open(archive_of(image, archives)) as saved:
        (manifest,) = json.load(saved.extractfile("manifest.json"))  # type: ignore[arg-type]
        for layer in manifest["Layers"][len(below) :]:
            content = saved.extractfile(layer).read()  # type: ignore[union-attr]
            sizes.append((len(content), len(gzip.compress(content, compresslevel=6))))
    with capsys.disabled():
        print("\nlayers above the base image (bytes, bytes compressed):", *sizes)
    assert 0 < sum(compressed for _plain, compressed in sizes) <= MAX_COMPRESSED_BYTES
