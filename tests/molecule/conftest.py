# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An engine and a node image for the scenarios of molecule."""

from __future__ import annotations

import os

import pytest

from lab import base_image
from lab.errors import LabError
from lab.kind import node_image
from lab.kind.cluster import IMAGE_VARIABLE, image_of_environment
from tests.container_engine import container_engine
from tests.not_run import not_run

__all__ = ["container_engine"]

BASE_VARIABLE = "KUBE_SCHEDULING_IMAGE_BASE"
PYTHON_VARIABLE = "KUBE_SCHEDULING_IMAGE_PYTHON"


@pytest.fixture(scope="session")
def kind_image(container_engine: None) -> str:
    """The node image: the one that the environment names, or else one that is built here."""
    try:
        return image_of_environment() or node_image.ensure(print)
    except LabError as error:
        not_run(error)


@pytest.fixture(scope="session")
def service_base(container_engine: None) -> dict[str, str]:
    """The base of the service image, as variables: the one that the environment names, or else one that is made here."""
    if os.environ.get(BASE_VARIABLE):
        return {}
    try:
        return {BASE_VARIABLE: base_image.ensure(print), PYTHON_VARIABLE: base_image.PYTHON}
    except LabError as error:
        not_run(error)


@pytest.fixture
def kind_environment(kind_image: str, service_base: dict[str, str]) -> dict[str, str]:
    """The environment of molecule, for scenarios with a kind cluster."""
    return {**os.environ, IMAGE_VARIABLE: kind_image, **service_base}
