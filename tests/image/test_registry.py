# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image in a registry: build and push to Debian's docker-registry, repetition, digests, and faults."""

from __future__ import annotations

import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.debian_program import debian_program
from tests.image.role import NODE, Answer, Role

LISTENING_WITHIN_S = 30
SETTINGS = """
version: 0.1
log: {{level: warn}}
storage: {{filesystem: {{rootdirectory: {folder}}}}}
http: {{addr: "{address}"}}
"""
WRONG_DIGEST = "sha256:" + "0" * 64


@pytest.fixture(scope="module")
def registry(base: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a registry without images. Engines use an address of this machine without TLS."""
    folder = tmp_path_factory.mktemp("registry")
    program = debian_program("docker-registry", folder)
    address = unused_address()
    (folder / "config.yml").write_text(SETTINGS.format(folder=folder / "data", address=address))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([program, "serve", str(folder / "config.yml")], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + LISTENING_WITHIN_S
        while not answers(address):
            assert process.poll() is None and time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.1)
        yield address
    finally:
        process.kill()
        process.wait()
        remove_images(address)


def unused_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"127.0.0.1:{free.getsockname()[1]}"


def answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"http://{address}/v2/", timeout=10) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def remove_images(address: str) -> None:
    """Remove the images of the registry from the engine."""
    listed = subprocess.run(["docker", "images", "--format={{.Repository}}:{{.Tag}}"], capture_output=True, text=True, check=True)
    if names := [name for name in listed.stdout.split() if name.startswith(f"{address}/")]:
        subprocess.run(["docker", "rmi", *names], check=True, capture_output=True)


def digest_in(registry: str, path: str, tag: str) -> str:
    """The digest of an image, as the registry says it."""
    accepted = ", ".join(("application/vnd.docker.distribution.manifest.v2+json", "application/vnd.oci.image.manifest.v1+json"))
    request = urllib.request.Request(f"http://{registry}/v2/{path}/manifests/{tag}", method="HEAD", headers={"Accept": accepted})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.headers["Docker-Content-Digest"])


@pytest.fixture(scope="module")
def pushed(registry: str, base: str, tmp_path_factory: pytest.TempPathFactory) -> Answer:
    """The result of the run that builds and pushes the image."""
    return Role(base=base, archives=Path("/nowhere"), node=NoNode(), folder=tmp_path_factory.mktemp("role")).run(  # type: ignore[arg-type]
        service_image_delivery="registry", service_image_registry=f"{registry}/platform"
    )


class NoNode:
    """A node without containerd, because the nodes pull the image themselves."""

    socket = "/nowhere/sock"


@pytest.fixture
def role(base: str, tmp_path: Path) -> Role:
    """The role without a node."""
    return Role(base=base, archives=tmp_path, node=NoNode(), folder=tmp_path)  # type: ignore[arg-type]


def test_the_pushed_image_is_referred_to_by_its_digest(registry: str, pushed: Answer) -> None:
    assert pushed.code == 0 and pushed.changed > 0 and pushed.results[NODE]["pull_policy"] == "IfNotPresent", pushed.output
    name, _at, digest = pushed.reference.partition("@")
    place, _colon, tag = name.rpartition(":")
    assert place == f"{registry}/platform/services"
    assert digest == digest_in(registry, "platform/services", tag)


@pytest.mark.full
def test_a_second_run_changes_nothing_and_what_another_user_pushes_is_not_used(
    registry: str, base: str, pushed: Answer, role: Role
) -> None:
    variables = {"service_image_delivery": "registry", "service_image_registry": f"{registry}/platform"}
    again = role.run(**variables)
    assert (again.code, again.changed) == (0, 0) and again.results == pushed.results, again.output
    # The engine of the other user has the tag for its image.
    name, own = pushed.reference.partition("@")[0], "kube-scheduling.lab/own:1"
    for command in (
        ["tag", name, own],
        ["rmi", name],
        ["tag", base, name],
        ["push", name],
        ["rmi", name],
        ["tag", own, name],
        ["rmi", own],
    ):
        subprocess.run(["docker", *command], check=True, capture_output=True)
    after = role.run(**variables)
    assert after.code == 0 and after.results == pushed.results, after.output
    assert digest_in(registry, "platform/services", name.rpartition(":")[2]) == pushed.reference.partition("@")[2]


@pytest.mark.full
def test_an_image_in_the_registry_is_referred_to_and_one_with_a_wrong_digest_is_refused(pushed: Answer, role: Role) -> None:
    name, _at, digest = pushed.reference.partition("@")
    hosts = {
        NODE: {"service_image_reference": pushed.reference},
        "by-tag": {"service_image_reference": name},
        "wrong": {"service_image_reference": f"{name}@{WRONG_DIGEST}"},
        "wrong-tag": {"service_image_reference": f"{name}-old"},
        "short": {"service_image_reference": f"{name}@{digest[:20]}"},
    }
    answer = role.run(hosts=hosts, service_image_delivery="registry")
    assert answer.code == 2 and set(answer.errors) == {"wrong", "wrong-tag", "short"}, answer.output
    assert answer.results[NODE]["reference"] == pushed.reference and answer.results["by-tag"]["reference"] == name
    for host in ("wrong", "wrong-tag"):
        assert f"has no image {hosts[host]['service_image_reference']}: check the name" in answer.errors[host]
    assert f"service_image_reference is {name}@{digest[:20]}, and its digest is not complete" in answer.errors["short"]


@pytest.mark.full
def test_a_registry_that_cannot_be_reached_is_named_with_the_remedy(pushed: Answer, role: Role) -> None:
    address = unused_address()
    try:
        answer = role.run(service_image_delivery="registry", service_image_registry=f"{address}/platform")
        error = answer.errors[NODE]
        assert answer.code == 2 and error.startswith(f"The image cannot be pushed to {address}/platform: "), answer.output
        assert "connection refused" in error and f"docker login {address}" in error
    finally:
        remove_images(address)
