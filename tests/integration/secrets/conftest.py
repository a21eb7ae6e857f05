# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of Ansible in the oldest supported version and in the newest one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import ansible_core
from tools.ansible_core import OLDEST


@pytest.fixture(scope="module", params=[OLDEST, "newest"])
def commands(request: pytest.FixtureRequest) -> Path:
    """The folder of ``ansible`` and ``ansible-playbook``."""
    return ansible_core.newest() if request.param == "newest" else ansible_core.programs_of(request.param)
