# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests of the service image: a container engine, a base image, and a containerd as that of a node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import base_image
from lab.errors import LabError
from tests.container_engine import container_engine
from tests.image.node import Containerd
from tests.image.role import Role
from tests.not_run import not_run

__all__ = ["container_engine"]


@pytest.fixture(scope="session")
def base(container_engine: None) -> str:
    """The name of the base image. Without one the tests are skipped, or fail under KUBE_SCHEDULING_REQUIRE_ENGINE=1."""
    try:
        return base_image.ensure(print)
    except LabError as error:
        not_run(error)


@pytest.fixture(scope="session")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the archives, so that one test builds and the others find the archive."""
    return tmp_path_factory.mktemp("archives")


@pytest.fixture(scope="module")
def node(base: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Containerd]:
    """A node with containerd, for all tests of a file."""
    with Containerd(tmp_path_factory.mktemp("node")) as running:
        yield running


@pytest.fixture
def role(base: str, archives: Path, node: Containerd, tmp_path: Path) -> Role:
    """The role, run for that node."""
    return Role(base=base, archives=archives, node=node, folder=tmp_path)
