# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image as an archive: import into containerd, repetition, upgrade, faults and removal."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.image.node import Containerd
from tests.image.role import NODE, Role

ALREADY_SMALL_BYTES = 100_000_000
REMEDIES = ("service_image_delivery: registry", "service_image_delivery: preloaded")


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


def test_the_first_run_imports_and_pins_the_image_and_the_second_changes_nothing(role: Role, empty: Containerd) -> None:
    planned = role.run("--check", "--diff")
    assert planned.code == 0 and planned.changed >= 1 and empty.images() == {}
    first = role.run()
    assert first.code == 0 and first.result["pull_policy"] == "Never"
    assert planned.result == first.result
    assert empty.images() == {first.result["reference"]: True}
    assert [file.name for file in role.folder.glob("*.tar")] == []
    second = role.run()
    assert (second.code, second.changed) == (0, 0), second.output
    again = role.run("--check", "--diff")
    assert (again.code, again.changed) == (0, 0), again.output


def test_the_reference_is_known_without_a_build(role: Role, empty: Containerd, tmp_path: Path) -> None:
    answer = role.run(tasks_from="reference", service_image_archive_folder=str(tmp_path / "nowhere"))
    assert (answer.code, answer.changed) == (0, 0) and empty.images() == {}
    assert answer.result == role.run().result


def test_an_upgrade_replaces_the_image_except_where_a_container_uses_the_old_one(
    role: Role, empty: Containerd, upgraded: dict[str, Any]
) -> None:
    old = role.run().result["reference"]
    empty.ctr("containers", "create", old, "running")
    new = role.run(**upgraded).result["reference"]
    assert new != old and empty.images() == {old: True, new: True}
    empty.ctr("containers", "delete", "running")
    answer = role.run(**upgraded)
    assert answer.changed == 1 and empty.images() == {new: True}


def test_images_of_others_and_their_names_by_id_stay(role: Role, empty: Containerd, upgraded: dict[str, Any]) -> None:
    old = role.run().result["reference"]
    foreign, by_id = "registry.example.org/services:1", "sha256:" + "0" * 64
    empty.ctr("images", "tag", old, foreign)
    empty.ctr("images", "tag", old, by_id)
    new = role.run(**upgraded).result["reference"]
    assert set(empty.images()) == {new, foreign, by_id}
    empty.ctr("images", "remove", foreign)
    empty.ctr("images", "tag", by_id, old)
    role.run(**upgraded)
    assert set(empty.images()) == {new}


def test_an_image_that_has_lost_its_label_is_pinned_again(role: Role, empty: Containerd) -> None:
    reference = role.run().result["reference"]
    empty.ctr("images", "label", reference, "io.cri-containerd.pinned=")
    assert empty.images() == {reference: False}
    assert role.run().changed == 1 and empty.images() == {reference: True}


def test_an_interrupted_import_is_repeated(role: Role, empty: Containerd) -> None:
    reference = role.run().result["reference"]
    empty.remove_images()
    (archive,) = role.archives.glob(f"*{reference.rpartition(':')[2]}*.tar")
    empty.ctr("images", "import", "--no-unpack", str(archive))
    assert " false" in empty.ctr("images", "check")
    answer = role.run()
    assert answer.code == 0 and answer.changed > 0 and " true" in empty.ctr("images", "check"), answer.output


def test_a_full_disk_is_an_error_that_names_the_node_and_the_remedies(role: Role, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ALREADY_SMALL_BYTES}", "tmpfs", str(disk)], check=True)
    try:
        with Containerd(disk) as full:
            answer = role.run(service_image_containerd_socket=str(full.socket))
            assert answer.code == 2 and f"{NODE}: the image" in answer.text and "no space left on device" in answer.text, answer.output
            assert "Check the free disk space" in answer.text and all(remedy in answer.text for remedy in REMEDIES)
            assert not any(full.images().values())
        assert list(role.folder.glob("*.tar")) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_an_archive_with_another_content_is_refused(role: Role, empty: Containerd, tmp_path: Path) -> None:
    role.run()
    empty.remove_images()
    for file in role.archives.iterdir():
        (tmp_path / "damaged").mkdir(exist_ok=True)
        (tmp_path / "damaged" / file.name).write_bytes(file.read_bytes() + (b"x" if file.suffix == ".tar" else b""))
    answer = role.run(service_image_archive_folder=str(tmp_path / "damaged"))
    assert answer.code == 2 and "has the SHA-256 sum" in answer.text and "copy both files again" in answer.text
    assert empty.images() == {}


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"service_image_architecture": "arm64"}, f"{NODE} is amd64, and the image is built for arm64"),
        ({"service_image_containerd_socket": "/nowhere/sock"}, f"{NODE} has no socket /nowhere/sock: start containerd"),
        ({"service_image_ctr": ["no-ctr"]}, f"{NODE}: no-ctr"),
        ({"service_image_wheelhouse": "/nowhere"}, "/nowhere has no wheel of"),
        ({"service_image_engine": "podman"}, "No container engine answers on the controller"),
        (
            {"service_image_base": "kube-scheduling.lab/missing:1"},
            "Check that service_image_base (kube-scheduling.lab/missing:1) can be pulled",
        ),
        ({"service_image_delivery": "preloaded"}, "no image is named: set service_image_reference to an image that the nodes have"),
        ({"service_image_reference": "a/b:1"}, "which builds an image with a name of its own: remove service_image_reference"),
        ({"service_image_pul_secrets": []}, "There is no variable service_image_pul_secrets. The variables are service_image_"),
        ({"service_image_state": "gone"}, "service_image_state must be one of: present, absent"),
    ],
)
def test_a_run_that_cannot_succeed_is_refused_and_changes_nothing(
    role: Role, empty: Containerd, tmp_path: Path, variables: dict[str, object], text: str
) -> None:
    archives = tmp_path / "archives"
    answer = role.run(**{"service_image_archive_folder": str(archives), **variables})
    assert answer.code == 2 and text in answer.text, answer.output
    assert empty.images() == {} and not list(archives.glob("*"))


@pytest.mark.parametrize(("file", "name"), [("crio.sock", "CRI-O"), ("cri-dockerd.sock", "cri-dockerd")])
def test_another_runtime_is_refused_by_name(role: Role, empty: Containerd, tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / file).touch()
    answer = role.run(__service_image_other_runtimes={str(tmp_path / file): name})
    assert answer.code == 2 and f"{NODE} runs {name}" in answer.text and "Set service_image_delivery: registry" in answer.text
    assert empty.images() == {}


def test_a_containerd_that_does_not_honour_the_label_is_named(role: Role, empty: Containerd) -> None:
    assert "WARNING" in role.run(__service_image_pin_version="99.0.0").text
    assert "WARNING" not in role.run(__service_image_pin_version="1.0.0").text


def test_absent_removes_the_images_and_the_archives(role: Role, empty: Containerd, upgraded: dict[str, Any], tmp_path: Path) -> None:
    archives = str(tmp_path / "archives")
    reference = role.run(service_image_archive_folder=archives).result["reference"]
    empty.ctr("images", "tag", reference, "registry.example.org/other:1")
    empty.ctr("images", "tag", reference, "kube-scheduling.onprem/services:0.0.9-123456789abc")
    planned = role.run("--check", service_image_state="absent", service_image_archive_folder=archives)
    assert planned.code == 0 and planned.changed > 0 and reference in empty.images()
    answer = role.run(service_image_state="absent", service_image_archive_folder=archives)
    assert answer.code == 0 and set(empty.images()) == {"registry.example.org/other:1"} and list((tmp_path / "archives").iterdir()) == []
    assert role.run(service_image_state="absent", service_image_archive_folder=archives).changed == 0


def test_an_image_of_others_is_only_referred_to(role: Role, empty: Containerd) -> None:
    answer = role.run(
        service_image_delivery="registry",
        service_image_reference="registry.example.org/services@sha256:1",
        service_image_pull_secrets=["key"],
    )
    assert (answer.code, answer.changed) == (0, 0) and empty.images() == {}
    assert answer.result == {"reference": "registry.example.org/services@sha256:1", "pull_policy": "IfNotPresent", "pull_secrets": ["key"]}
    loaded = role.run(service_image_delivery="preloaded", service_image_reference="services:1")
    assert (loaded.changed, loaded.result["pull_policy"]) == (0, "Never")
