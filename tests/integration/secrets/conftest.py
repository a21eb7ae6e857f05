# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of Ansible in the oldest supported version and in the newest one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import interpreters, venvs

OLDEST = Path(__file__).with_name("requirements-2.18.txt")
NEWEST_PYTHON_OF_OLDEST = (3, 13)


@pytest.fixture(scope="module", params=["2.18", "newest"])
def commands(request: pytest.FixtureRequest) -> Path:
    """The folder of ``ansible`` and ``ansible-playbook``."""
    if request.param == "newest":
        return Path(sys.executable).parent
    python: Path | None = Path(getattr(sys, "_base_executable", sys.executable))
    if sys.version_info[:2] > NEWEST_PYTHON_OF_OLDEST:
        python = interpreters.find("3.13")
    assert python is not None, "ansible-core 2.18 needs Python 3.11, 3.12 or 3.13: install one of them"
    return venvs.ensure("oldest-ansible", python, [OLDEST]) / "bin"
