# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image as an archive: import into containerd, repetition, upgrade, faults and removal."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.containerd import name_on_node
from ansible_collections.onprem.kube_scheduling.services.image_context import describe

from lab import base_image
from tests.image.node import Containerd
from tests.image.role import NODE, Role

# The scenario `kind` imports the image, too.
pytestmark = pytest.mark.full

SMALL_DISK_BYTES = 100_000_000
REMEDIES = ("service_image_delivery: registry", "service_image_delivery: preloaded")
FOREIGN, BY_ID = "registry.example.org/services:1", "sha256:" + "0" * 64


@pytest.fixture
def empty(node: Containerd) -> Containerd:
    """The node without images."""
    node.remove_images()
    return node


@pytest.fixture
def upgraded(base: str) -> Iterator[dict[str, Any]]:
    """The variables of an image with another content.

    The base image has a second name, and the label makes another image of the same layers.
    """
    name = "kube-scheduling.lab/other-python:1"
    subprocess.run(["docker", "tag", base, name], check=True)
    yield {"service_image_base": name, "service_image_build_arguments": ["--network=none", "--label=other=1"]}
    subprocess.run(["docker", "rmi", name], check=True, capture_output=True)


def archive_of(role: Role, reference: str) -> Path:
    (found,) = role.archives.glob(f"*{reference.partition('@')[0].rpartition(':')[2]}*.tar")
    return found


def test_the_first_run_imports_and_pins_the_image_and_the_second_changes_nothing(role: Role, empty: Containerd) -> None:
    planned = role.run("--check", "--diff")
    assert planned.code == 0 and planned.changed >= 1 and empty.images() == {}, planned.output
    first = role.run()
    assert first.code == 0 and first.results[NODE]["pull_policy"] == "Never", first.output
    assert first.reference.startswith(f"{planned.reference.partition('@')[0]}@sha256:")
    assert empty.images() == {name_on_node(first.reference): True}
    assert list(role.folder.glob("*.tar")) == list(role.folder.glob("kube-scheduling-*")) == []
    second = role.run()
    assert (second.code, second.changed) == (0, 0), second.output
    again = role.run("--check", "--diff")
    assert (again.code, again.changed) == (0, 0), again.output


def test_a_controller_without_the_archive_builds_the_same_image(role: Role, empty: Containerd, tmp_path: Path) -> None:
    arguments = ["--network=none", "--no-cache"]
    elsewhere = role.run(service_image_archive_folder=str(tmp_path / "archives"), service_image_build_arguments=arguments)
    assert elsewhere.code == 0 and elsewhere.results == role.run().results, elsewhere.output


def test_the_reference_is_known_without_a_build(role: Role, empty: Containerd, tmp_path: Path) -> None:
    answer = role.run(tasks_from="reference", service_image_archive_folder=str(tmp_path / "nowhere"))
    assert (answer.code, answer.changed) == (0, 0) and empty.images() == {}, answer.output
    tag = describe(base=role.base, python=base_image.PYTHON, architecture="amd64")["tag"]
    assert answer.reference == f"kube-scheduling.onprem/services:{tag}"


def test_an_upgrade_removes_the_old_image_when_no_container_uses_it_and_nothing_of_others(
    role: Role, empty: Containerd, upgraded: dict[str, Any]
) -> None:
    old = name_on_node(role.run().reference)
    empty.ctr("images", "tag", old, BY_ID)
    empty.ctr("containers", "create", old, "running")
    new = name_on_node(role.run(**upgraded).reference)
    assert new != old and set(empty.images()) == {old, new, BY_ID}
    empty.ctr("containers", "delete", "running")
    empty.ctr("images", "tag", old, FOREIGN)
    assert role.run(**upgraded).changed == 1 and set(empty.images()) == {new, FOREIGN, BY_ID}
    empty.ctr("images", "tag", FOREIGN, old)
    empty.ctr("images", "remove", FOREIGN)
    assert role.run(**upgraded).changed == 1 and empty.images() == {new: True}


def test_an_interrupted_import_is_repeated(role: Role, empty: Containerd) -> None:
    reference = role.run().reference
    empty.remove_images()
    empty.ctr("images", "import", "--no-unpack", str(archive_of(role, reference)))
    assert " false" in empty.ctr("images", "check")
    answer = role.run()
    assert answer.code == 0 and answer.changed > 0 and " true" in empty.ctr("images", "check"), answer.output
    assert empty.images() == {name_on_node(reference): True}


def test_an_import_removes_its_own_copy_and_those_of_interrupted_runs_but_nothing_of_another_run(role: Role, empty: Containerd) -> None:
    archive = archive_of(role, role.run().reference)
    empty.remove_images()
    present, abandoned = role.folder / "kube-scheduling-image-1", role.folder / "kube-scheduling-image-2"
    for folder in (present, abandoned):
        folder.mkdir()
        (folder / "image.tar").write_text("x")
    os.utime(abandoned, (0, 0))
    (role.folder / archive.name).write_text("x")
    answer = role.run()
    assert answer.code == 0 and set(role.folder.glob("kube-scheduling-*")) == {present, role.folder / archive.name}, answer.output
    assert (present / "image.tar").read_text() == (role.folder / archive.name).read_text() == "x"


def test_two_controllers_can_deliver_the_image_at_the_same_time(role: Role, empty: Containerd, tmp_path: Path) -> None:
    archives = tmp_path / "archives"
    roles = []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        roles.append(replace(role, folder=tmp_path / name))
    variables = {"service_image_archive_folder": str(archives), "service_image_node_folder": str(tmp_path)}
    with ThreadPoolExecutor() as threads:
        first, second = threads.map(lambda one: one.run(**variables), roles)
    assert (first.code, second.code) == (0, 0) and first.reference == second.reference, first.output + second.output
    assert empty.images() == {name_on_node(first.reference): True} and list(tmp_path.glob("kube-scheduling-*")) == []
    archive = archive_of(replace(role, archives=archives), first.reference)
    with archive.open("rb") as content:
        checksum = hashlib.file_digest(content, "sha256").hexdigest()
    assert archive.with_name(f"{archive.name}.sha256").read_text().split() == [checksum, archive.name]
    assert {file.name for file in archives.iterdir()} == {archive.name, f"{archive.name}.sha256"}
    names = ["docker", "images", "--quiet", first.reference.partition(":")[0]]
    assert subprocess.run(names, capture_output=True, text=True, check=True).stdout == ""


@pytest.mark.usefixtures("as_root")
def test_a_full_disk_is_an_error_that_names_the_node_and_the_remedies(role: Role, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK_BYTES}", "tmpfs", str(disk)], check=True)
    try:
        with Containerd(disk) as full:
            answer = role.run(service_image_containerd_socket=str(full.socket))
            error = answer.errors[NODE]
            assert answer.code == 2 and error.startswith(f"{NODE}: the image") and "no space left on device" in error, answer.output
            assert "Check the free disk space" in error
            assert not any(full.images().values())
        assert list(role.folder.glob("kube-scheduling-*")) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_an_archive_with_another_content_is_refused(role: Role, empty: Containerd, tmp_path: Path) -> None:
    archive = archive_of(role, role.run().reference)
    empty.remove_images()
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    (damaged / archive.name).symlink_to(archive)
    (damaged / f"{archive.name}.sha256").write_text(f"{'0' * 64}  {archive.name}\n")
    answer = role.run(service_image_archive_folder=str(damaged))
    assert answer.code == 2 and "has the SHA-256 sum" in answer.errors[NODE] and "copy both files again" in answer.errors[NODE]
    assert empty.images() == {}


def test_an_archive_of_another_image_is_not_imported_under_the_digest(role: Role, empty: Containerd, tmp_path: Path) -> None:
    archive = archive_of(role, role.run().reference)
    empty.remove_images()
    forged = tmp_path / "forged"
    forged.mkdir()
    content = archive.read_bytes()
    place = content.index(b'"architecture"')
    (forged / archive.name).write_bytes(content[:place] + b'"architecturE"' + content[place + 14 :])
    checksum = hashlib.sha256((forged / archive.name).read_bytes()).hexdigest()
    (forged / f"{archive.name}.sha256").write_text(f"{checksum}  {archive.name}\n")
    answer = role.run(service_image_archive_folder=str(forged))
    assert answer.code == 2 and "is not imported" in answer.errors[NODE] and "digest" in answer.errors[NODE], answer.output
    assert not any(empty.images().values())


def test_a_node_that_cannot_use_the_archive_is_refused_by_name_and_the_others_get_it(role: Role, empty: Containerd) -> None:
    hosts = {
        NODE: {},
        "with-arm": {"service_image_architecture": "arm64"},
        "without-containerd": {"service_image_containerd_socket": "/nowhere/sock"},
        "without-ctr": {"service_image_ctr": ["no-ctr"]},
    }
    answer = role.run(hosts=hosts)
    assert answer.code == 2 and empty.images() == {name_on_node(answer.reference): True}, answer.output
    assert set(answer.errors) == set(hosts) - {NODE}
    assert answer.errors["with-arm"].startswith(
        "with-arm is amd64 and has service_image_architecture arm64, and the image is built for amd64."
    )
    assert answer.errors["without-containerd"].startswith("without-containerd has no socket /nowhere/sock: start containerd")
    assert answer.errors["without-ctr"].startswith("without-ctr: no-ctr")


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"service_image_wheelhouse": "/nowhere"}, "/nowhere has no wheel of"),
        ({"service_image_engine": "docker"}, "No container engine"),
        (
            {"service_image_base": "kube-scheduling.lab/missing:1"},
            "Check that service_image_base (kube-scheduling.lab/missing:1) can be pulled",
        ),
    ],
    ids=["no wheels", "no engine", "no base image"],
)
def test_a_build_that_cannot_succeed_names_the_remedy_and_leaves_nothing(
    role: Role, empty: Containerd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], text: str
) -> None:
    if "service_image_engine" in variables:
        monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/sock")
    archives = tmp_path / "archives"
    answer = role.run(service_image_archive_folder=str(archives), **variables)
    assert answer.code == 2 and text in answer.errors[NODE], answer.output
    assert all(remedy in answer.errors[NODE] for remedy in REMEDIES)
    assert empty.images() == {} and not list(archives.glob("*"))


def test_absent_removes_the_images_and_the_archives(role: Role, empty: Containerd, tmp_path: Path) -> None:
    reference = role.run().reference
    name, archive, archives = name_on_node(reference), archive_of(role, reference), tmp_path / "archives"
    archives.mkdir()
    for file in (archive, archive.with_name(f"{archive.name}.sha256")):
        os.link(file, archives / file.name)
    empty.ctr("images", "tag", name, FOREIGN)
    empty.ctr("images", "tag", name, "kube-scheduling.onprem/services:0.0.9-123456789abc")
    gone = {"service_image_state": "absent", "service_image_archive_folder": str(archives)}
    assert role.run("--check", **gone).changed > 0 and name in empty.images() and len(list(archives.iterdir())) == 2
    # The delivery may have changed since the image was imported.
    answer = role.run(**gone, service_image_delivery="registry")
    assert answer.code == 0 and set(empty.images()) == {FOREIGN} and list(archives.iterdir()) == [], answer.output
    assert role.run(**gone).changed == 0
