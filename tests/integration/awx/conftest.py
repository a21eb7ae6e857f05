# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages of the execution environment."""

from __future__ import annotations

import sys

import pytest

from tests.integration.awx.launch import Packages
from tools import execution_environment


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """The virtual environment with the packages that ansible-builder lists, and the collections of the execution environment."""
    if sys.version_info < (3, 12):
        pytest.skip("the ansible-core of the execution environment needs Python 3.12")
    folder = tmp_path_factory.mktemp("ee")
    collections = execution_environment.install_collections(folder)
    requirements = execution_environment.introspect(collections)["python"]
    return Packages(execution_environment.virtual_environment(requirements, folder), collections)
