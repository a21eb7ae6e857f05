# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image runs each program without root, without a network and without a writable file system, and has nothing that they do not need."""

from __future__ import annotations

import gzip
import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services.__main__ import PROGRAMS

from tests.image.role import Role

RESTRICTED = ("--pull=never", "--rm", "--read-only", "--network=none", "--cap-drop=ALL", "--security-opt=no-new-privileges")
MAX_COMPRESSED_BYTES = 26_000_000
"""The limit for the layers above the base image. docs/service-image.md has the measured size and its parts."""


@pytest.fixture(scope="module")
def image(base: str, archives: Path, node: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The reference of the image, which the role has built."""
    answer = Role(base=base, archives=archives, node=node, folder=tmp_path_factory.mktemp("role")).run()  # type: ignore[arg-type]
    assert answer.code == 0, answer.output
    reference = str(answer.reference)
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


def test_the_extender_loads_all_of_its_agents(image: str, tmp_path: Path) -> None:
    agents = ", ".join(f"{{name: {name}}}" for name in ("network_traffic", "safe_overload", "pigeon", "reward"))
    sources = "{prometheus: {urls: ['http://127.0.0.1:9090']}, kubernetes: {}}"
    (tmp_path / "config.yml").write_text(f"sources: {sources}\nprofiles: {{all: {{agents: [{agents}]}}}}\n")
    tmp_path.chmod(0o755)
    mounted = f"--volume={tmp_path}:/etc/kube-scheduling:ro"
    answer = docker("run", *RESTRICTED, mounted, image, "extender", "--config=/etc/kube-scheduling/config.yml", "--check-config")
    assert "config.yml can be used" in answer


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


def test_every_source_has_byte_code_because_none_can_be_written(image: str) -> None:
    program = (
        "import importlib.util; from pathlib import Path; "
        "files = [str(one) for one in Path('/opt/kube-scheduling').rglob('*.py')]; "
        "print(len(files), [one for one in files if not Path(importlib.util.cache_from_source(one)).exists()])"
    )
    count, _space, without = python(image, program).strip().partition(" ")
    assert int(count) > 500 and without == "[]"


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
