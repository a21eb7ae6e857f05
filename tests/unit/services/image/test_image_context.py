# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The build context of the image: its files, the hash of its content, and the choice of wheels."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.services import image_context
from ansible_collections.onprem.kube_scheduling.services.image_slim import slim

from tools.paths import ROOT

IMAGE = {"base": "python:3.13-slim", "python": "3.13", "architecture": "amd64"}


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """A copy of the files from which the image is built."""
    root = tmp_path / "ansible_collections" / "onprem" / "kube_scheduling"
    for folder in ("services", "plugins/module_utils"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("galaxy.yml", "LICENSE"):
        shutil.copy(ROOT / name, root / name)
    return root


def describe(root: Path, **changes: str) -> dict[str, str]:
    options = [f"--{name}={value}" for name, value in {**IMAGE, **changes}.items()]
    command = [sys.executable, str(root / "services" / "image_context.py"), "describe", *options]
    found: dict[str, str] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def test_the_same_content_has_the_same_tag_wherever_the_collection_is(collection: Path) -> None:
    here = image_context.describe(**IMAGE)
    assert describe(collection) == here
    assert here["tag"] == f"{here['version']}-{here['hash']}" and len(here["hash"]) == 12


def test_an_installed_collection_and_a_clone_have_the_same_tag(collection: Path) -> None:
    before = describe(collection)
    (collection / "galaxy.yml").unlink()
    (collection / "MANIFEST.json").write_text(json.dumps({"collection_info": {"version": before["version"]}, "format": 1}))
    assert describe(collection) == before


def test_ansible_finds_the_version_of_a_collection_that_is_installed(collection: Path) -> None:
    # The import system of ansible-core takes each file below its collections for a place of modules.
    program = f"""
from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder
_AnsibleCollectionFinder(paths=[{str(collection.parents[2])!r}])._install()
from ansible_collections.onprem.kube_scheduling.services import image_context
assert image_context.__file__.startswith({str(collection)!r})
print(image_context.collection_version())
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.strip() == image_context.collection_version(), found.stderr


@pytest.mark.parametrize(
    "file",
    [
        "services/Containerfile",
        "services/requirements.txt",
        "services/image_slim.py",
        "services/image_elf.py",
        "services/image_bytecode.py",
        "services/rescuer/cli.py",
        "plugins/module_utils/model/codec.py",
    ],
)
def test_a_change_of_a_file_changes_the_hash(collection: Path, file: str) -> None:
    with (collection / file).open("a") as changed:
        changed.write("# more\n")
    assert describe(collection)["hash"] != image_context.describe(**IMAGE)["hash"]


def test_files_that_are_not_in_the_image_do_not_change_the_hash(collection: Path) -> None:
    (collection / "README.md").write_text("A text.\n")
    (collection / "services" / "__pycache__").mkdir()
    (collection / "services" / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert describe(collection) == image_context.describe(**IMAGE)


@pytest.mark.parametrize("change", [{"base": "python:3.12-slim"}, {"python": "3.12"}, {"architecture": "arm64"}])
def test_the_base_image_the_python_and_the_architecture_are_in_the_hash(change: dict[str, str]) -> None:
    assert image_context.describe(**{**IMAGE, **change})["hash"] != image_context.describe(**IMAGE)["hash"]


def test_the_context_has_each_source_and_nothing_of_the_build_in_the_collection() -> None:
    names = set(image_context.source_files())
    prefix = image_context.COLLECTION
    assert {f"{prefix}/services/__main__.py", f"{prefix}/services/extender/prometheus_rules.yml", f"{prefix}/LICENSE"} <= names
    assert not {name for name in names if "kubectl_spread" in name}, "it runs on the machines of people"
    of_services = {name for name in names if name.startswith(f"{prefix}/services/")}
    assert not {name for name in of_services if Path(name).name.startswith(("image_", "Containerfile", "requirements"))}


def test_the_context_is_written_from_a_folder_with_the_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheelhouse = wheels(tmp_path, monkeypatch, "pip-1-py3-none-any.whl", "some_library-2-py3-none-any.whl")
    (wheelhouse / "some_library-3-py3-none-any.whl").write_text("a wheel that no lock names")
    image_context.assemble(tmp_path / "context", wheelhouse=wheelhouse)
    assert (tmp_path / "context" / "pip.whl").read_text() == "pip-1-py3-none-any.whl"
    assert [file.name for file in (tmp_path / "context" / "wheelhouse").iterdir()] == ["some_library-2-py3-none-any.whl"]
    manifest = json.loads((tmp_path / "context" / image_context.COLLECTION / "MANIFEST.json").read_text())
    assert manifest["collection_info"]["version"] == image_context.collection_version()


def test_a_folder_without_a_locked_wheel_is_refused_with_the_name_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wheelhouse = wheels(tmp_path, monkeypatch, "pip-1-py3-none-any.whl", "some_library-2-py3-none-any.whl")
    (wheelhouse / "some_library-2-py3-none-any.whl").write_text("another content")
    assert image_context.main(["assemble", f"--wheelhouse={wheelhouse}", f"--to={tmp_path / 'context'}"]) == 2
    assert f"{wheelhouse} has no wheel of some-library with a hash from" in capsys.readouterr().err
    assert not (tmp_path / "context").exists()


def wheels(folder: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> Path:
    """A folder with wheels whose content is their name, and locks that name them."""
    wheelhouse = folder / "wheelhouse"
    wheelhouse.mkdir()
    for lock, name in zip(("BUILD_LOCK", "LOCK"), names, strict=True):
        (wheelhouse / name).write_text(name)
        package = name.partition("-")[0].replace("_", "-")
        file = folder / f"{lock}.txt"
        file.write_text(f"# A lock.\n{package}==1 \\\n    --hash=sha256:{hashlib.sha256(name.encode()).hexdigest()}\n")
        monkeypatch.setattr(image_context, lock, file)
    return wheelhouse


def test_tests_stubs_and_sources_of_libraries_are_removed(tmp_path: Path) -> None:
    kept = ("library/__init__.py", "library/testing.py", "library-1.dist-info/METADATA", "library/data.yml", "library/_fast.abi3.so")
    removed = (
        "bin/tool",
        "library/tests/test_it.py",
        "library/core/tests/data.txt",
        "library/a.pyi",
        "library/a.c",
        "numpy/f2py/__init__.py",
        "numpy/conftest.py",
        "numpy/_core/_umath_tests.cpython-311-x86_64-linux-gnu.so",
        "numpy/_core/_simd.cpython-311-x86_64-linux-gnu.so",
    )
    for name in (*kept, *removed):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    slim(tmp_path)
    assert {str(file.relative_to(tmp_path)) for file in tmp_path.rglob("*") if file.is_file()} == set(kept)
