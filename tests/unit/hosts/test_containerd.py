# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The image in the containerd of a node, with texts of ctr. tests/image runs the real one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts import containerd
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.containerd import (
    PIN,
    REPOSITORY,
    Containerd,
    name_on_node,
    remove_abandoned,
)

OLD, NEW, ID = f"{REPOSITORY}:1-abc", f"{REPOSITORY}@sha256:{'1' * 64}", f"sha256:{'2' * 64}"


def node(answers: Mapping[str, str], socket: str = "/nowhere/sock") -> Containerd:
    """Return a node whose ctr answers with these texts. A key is a part of the command line. Other commands fail."""

    def run(words: Sequence[str]) -> tuple[int, str, str]:
        command = " ".join(words)
        return next(((0, text, "") for part, text in answers.items() if part in command), (1, "", "no such command"))

    return Containerd("worker-1", ["ctr"], socket, run)


def listed(*rows: tuple[str, str, str]) -> str:
    lines = [f"{name} application/x {digest} 20.1 MiB linux/amd64 {labels}" for name, digest, labels in rows]
    return "\n".join(["REF TYPE DIGEST SIZE PLATFORMS LABELS", *lines])


def test_with_a_digest_the_tag_is_no_part_of_the_name_on_a_node() -> None:
    assert name_on_node(f"localhost:5000/a/services:1@sha256:{'1' * 64}") == f"localhost:5000/a/services@sha256:{'1' * 64}"
    assert name_on_node("localhost:5000/a/services:1") == "localhost:5000/a/services:1"


def test_a_node_with_another_runtime_or_architecture_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    (tmp_path / "sock").touch()
    ready = node({"version": "Server:\n  Version:  v2.0.1"}, str(tmp_path / "sock"))
    assert ready.problems("arm64", "arm64") == []
    for architecture, text in (
        ("amd64", "worker-1 is arm64, and"),
        ("arm64", "worker-1 is arm64 and has service_image_architecture arm64,"),
    ):
        (found,) = ready.problems(architecture, "amd64")
        assert found.startswith(text) and "set service_image_delivery: registry, and service_image_reference to" in found
    (found,) = node({}, str(tmp_path / "sock")).problems("arm64", "arm64")
    assert found.startswith("worker-1: ctr version failed: no such command. It needs root")
    (found,) = node({}).problems("arm64", "arm64")
    assert found.startswith("worker-1 has no socket /nowhere/sock: start containerd")
    (tmp_path / "crio.sock").touch()
    monkeypatch.setattr(containerd, "OTHER_RUNTIMES", {str(tmp_path / "crio.sock"): "CRI-O"})
    (found,) = ready.problems("arm64", "arm64")
    assert found.startswith("worker-1 runs CRI-O (") and "Set service_image_delivery: registry" in found


@pytest.mark.parametrize(
    ("version", "pins", "text"),
    [
        ("2.1.0", True, ""),
        ("1.7.10", True, ""),
        ("1.7.9", True, "which notices that the image is pinned only when containerd starts again"),
        ("1.7.9", False, ""),
        ("1.7.2", False, "may not tell the kubelet that the image is pinned"),
        ("1.6.25", False, "may not tell the kubelet that the image is pinned"),
    ],
)
def test_what_the_version_of_containerd_means_for_the_pin(version: str, pins: bool, text: str) -> None:
    found = node({"version": f"Client:\n  Version:  9.9.9\nServer:\n  Version:  v{version}\n"}).warnings(pins=pins)
    assert len(found) == bool(text) and all(f"worker-1 has containerd {version}, " in one and text in one for one in found)


def test_images_that_containers_use_stay_and_those_of_others_too() -> None:
    rows = [(OLD, "sha256:o", PIN), (ID, "sha256:o", "-"), (NEW, "sha256:n", PIN), ("example.org/services:1", "sha256:e", "-")]
    texts = {"images list": listed(*rows), "containers list": "CONTAINER IMAGE RUNTIME"}
    assert node(texts).removable(NEW) == [OLD, ID]
    assert node(texts).removable("") == [OLD, NEW, ID]
    assert node(texts).removable(OLD) == [NEW]
    assert node({**texts, "images list": listed(*rows, ("other:1", "sha256:o", "-"))}).removable(NEW) == [OLD]
    used = {**texts, "containers list": f"CONTAINER IMAGE RUNTIME\nweb {ID} io.containerd.runc.v2"}
    assert node(used).removable(NEW) == [] and node(used).removable("") == [OLD, NEW, ID]


def test_what_is_missing_of_an_image() -> None:
    whole = {"images check": f"{NEW} application/x sha256:n complete (3/3) 20.1 MiB/20.1 MiB true"}
    pinned = {"images list": listed((NEW, "sha256:n", PIN))}
    reference = f"{REPOSITORY}:1-abc@sha256:{'1' * 64}"
    assert node(whole | pinned).missing(reference) == []
    for texts, text in (
        ({}, "worker-1: ctr cannot read the images: ctr images list: no such command. It needs root (become: true)"),
        (pinned, f"worker-1 does not have the image {reference}: run the playbook"),
        (whole | {"images list": listed((OLD, "sha256:n", PIN))}, f"worker-1 does not have the image {reference}: run the playbook"),
        (whole | {"images list": listed((NEW, "sha256:n", "-"))}, f"worker-1 has the image {reference}, which is not pinned"),
    ):
        (found,) = node(texts).missing(reference)
        assert found.startswith(text), found


def test_only_old_copies_of_archives_are_removed(tmp_path: Path) -> None:
    for name in ("kube-scheduling-image-1", "kube-scheduling-image-2", "other"):
        (tmp_path / name).mkdir()
    for name in ("kube-scheduling-image-2", "other"):
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / "kube-scheduling-image-3").symlink_to(tmp_path / "other")
    (tmp_path / "kube-scheduling-image-4").symlink_to(tmp_path / "nowhere")
    remove_abandoned(str(tmp_path))
    left = {"kube-scheduling-image-1", "kube-scheduling-image-3", "kube-scheduling-image-4", "other"}
    assert {path.name for path in tmp_path.iterdir()} == left
