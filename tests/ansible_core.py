# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ansible-core that runs playbooks and scenarios in tests: the newest one, which .venv has, or 2.18, the oldest one that is supported.

PLAYBOOK_ANSIBLE_CORE=2.18 chooses the oldest one. It is in an environment of its own.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tools import interpreters, venvs

OLDEST = "2.18"
NEWEST_PYTHON_OF_OLDEST = (3, 13)
VARIABLE = "PLAYBOOK_ANSIBLE_CORE"
_REQUIREMENTS = Path(__file__).with_name(f"requirements-ansible-{OLDEST}.txt")


def programs() -> Path:
    """Return the folder of ``ansible-playbook`` and ``python`` in the version that PLAYBOOK_ANSIBLE_CORE chooses."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted not in ("", OLDEST):
        pytest.fail(f"{VARIABLE}={wanted}: there is no such version, use {OLDEST} or leave it empty for the newest one")
    return oldest() if wanted else newest()


def newest() -> Path:
    """Return the folder of the programs of .venv."""
    return Path(sys.executable).parent


def oldest() -> Path:
    """Return the folder of the programs of ansible-core 2.18. The environment is made if needed."""
    python: Path | None = Path(getattr(sys, "_base_executable", sys.executable))
    if sys.version_info[:2] > NEWEST_PYTHON_OF_OLDEST:
        python = interpreters.find("3.13")
    assert python is not None, f"ansible-core {OLDEST} needs Python 3.11, 3.12 or 3.13: install one of them"
    return venvs.ensure("oldest-ansible", python, [_REQUIREMENTS]) / "bin"
