# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The image on the controller, with a program in the place of a container engine. tests/image has the real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.service_image import ImageError, ServiceImage
from ansible_collections.onprem.kube_scheduling.services import image_context

from tools.paths import ROOT

DEFAULTS = yaml.safe_load((ROOT / "roles" / "service_image" / "defaults" / "main.yml").read_text())
LOGIN = "user:T0KEN@"
PROXY = f"--build-arg=HTTPS_PROXY=http://{LOGIN}proxy.example.org:3128"
ENGINE = """#!/bin/sh
case "$1" in
  version) echo amd64 ;;
  *) echo "no answer with $*" >&2; exit 1 ;;
esac
"""


@pytest.fixture(autouse=True)
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program `docker`, which only tells its architecture."""
    program = tmp_path / "bin" / "docker"
    program.parent.mkdir()
    program.write_text(ENGINE)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return program


def image(folder: Path, **variables: Any) -> ServiceImage:
    given = {name.removeprefix("service_image_"): value for name, value in DEFAULTS.items()}
    return ServiceImage((given | {"archive_folder": str(folder / "archives"), "engine": "docker", **variables}).__getitem__)


def test_a_login_in_an_argument_of_the_build_is_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_context, "assemble", lambda folder, *, wheelhouse: None)
    with pytest.raises(ImageError) as caught:
        image(tmp_path, wheelhouse=str(tmp_path), build_arguments=[PROXY]).deliver(dry=False)
    text = str(caught.value)
    assert "docker build: no answer with build --file" in text and "HTTPS_PROXY=http://proxy.example.org:3128" in text
    assert "T0KEN" not in text and list(tmp_path.glob("archives/*")) == []


def test_a_login_in_an_argument_of_pip_is_not_shown(tmp_path: Path) -> None:
    arguments = [f"--index-url=https://{LOGIN}127.0.0.1:1/simple", "--retries=0"]
    with pytest.raises(ImageError) as caught:
        image(tmp_path, pip_arguments=arguments).deliver(dry=False)
    text = str(caught.value)
    assert "cannot be built on the controller. pip could not download the wheels" in text and "T0KEN" not in text, text
    assert "Name a package index that this machine reaches in service_image_pip_arguments" in text


def test_a_plan_builds_nothing_and_names_the_image_without_a_digest(tmp_path: Path) -> None:
    planned = image(tmp_path)
    assert list(planned.problems()) == [] and planned.deliver(dry=True) and not (tmp_path / "archives").exists()
    assert planned.reference == f"kube-scheduling.onprem/services:{planned.described['tag']}"


def test_an_engine_that_is_missing_or_of_another_architecture_is_named_with_the_remedies(tmp_path: Path, engine: Path) -> None:
    (found,) = image(tmp_path, architecture="arm64").problems()
    assert found.startswith("docker on the controller builds for amd64, and service_image_architecture is arm64: build on a machine")
    (found,) = image(tmp_path, engine="podman").problems()
    assert "(podman: not installed). Install and start docker or podman, or copy kube-scheduling-services-" in found
    engine.unlink()
    (found,) = image(tmp_path, engine="auto", delivery="registry", registry="docker.io/platform").problems()
    assert (
        "(docker: not installed; podman: not installed). Install and start docker or podman, or deliver the image in another way" in found
    )


@pytest.mark.parametrize(
    ("reference", "is_asked"),
    [("services:1", False), ("platform/services:1", False), ("127.0.0.1:1/services:1", True), ("localhost/services@sha256:ab", True)],
)
def test_only_the_registry_of_an_image_that_names_one_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reference: str, is_asked: bool
) -> None:
    asked = []

    def no_registry(url: str, **options: Any) -> None:
        asked.append(url)
        raise OSError("no route")

    module = "ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.service_image"
    monkeypatch.setattr(f"{module}.open_url", no_registry)
    # The nodes may reach a registry that the controller does not.
    assert list(image(tmp_path, delivery="registry", reference=reference).problems()) == []
    assert len(asked) == is_asked and all("/v2/services/manifests/" in url for url in asked)
