# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ansible-core that runs playbooks and scenarios in tests: that of .venv, or the release in PLAYBOOK_ANSIBLE_CORE, such as 2.18.

Such a release is in an environment of its own, the one of `make env ANSIBLE_CORE=2.18`.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tools import env, interpreters
from tools.ansible_core import RELEASES
from tools.errors import ToolError

VARIABLE = "PLAYBOOK_ANSIBLE_CORE"


def programs() -> Path:
    """Return the folder of ``ansible-playbook`` and ``python`` in the version that PLAYBOOK_ANSIBLE_CORE chooses."""
    wanted = os.environ.get(VARIABLE, "")
    return programs_of(wanted) if wanted else Path(sys.executable).parent


def programs_of(wanted: str) -> Path:
    """Return the folder of the programs of a release. The environment is made if needed."""
    try:
        return env.libraries(_python_for(wanted), wanted) / "bin"
    except ToolError as error:
        pytest.fail(f"{VARIABLE}={wanted}: {error}")


def _python_for(wanted: str) -> Path:
    """Return the Python of .venv, or the newest other one that the controllers of the release support."""
    own = Path(getattr(sys, "_base_executable", sys.executable))
    release = RELEASES.get(wanted)
    if release is None or release.supports(sys.version_info[:2]):
        return own
    minors = range(release.newest_python[1], release.oldest_python[1] - 1, -1)
    return next(filter(None, (interpreters.find(f"3.{minor}") for minor in minors)), own)
