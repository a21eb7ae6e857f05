# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs `ansible-test sanity` on what ships, without containers and only with pip's package index.

It takes the oldest and the newest Python that are installed, and with ``--all-pythons`` each. Other arguments are those of ansible-test.
ansible-test gets a home of its own in the cache: its environments and its pip are kept there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from ansible_test._util.target.common.constants import CONTROLLER_PYTHON_VERSIONS, REMOTE_ONLY_PYTHON_VERSIONS

from lab.layout import project_cache_dir
from lab.locks import locked
from tools import interpreters
from tools.errors import ToolError, exit_with
from tools.paths import ENVIRONMENT
from tools.working_copy import working_copy

NEVER_SHIPPED = (".ci", ".github", "docs", "lab", "tests", "tools")
"""The paths that are not tested: ruff, mypy and pytest check them, and managed hosts with old Pythons do not import them."""

PYTHONS = tuple(
    version for version in (*REMOTE_ONLY_PYTHON_VERSIONS, *CONTROLLER_PYTHON_VERSIONS) if tuple(map(int, version.split("."))) >= (3, 9)
)
"""The versions that the modules support, and that this ansible-core tests."""

ALL_PYTHONS = "--all-pythons"

PIP = "24.2"
"""Starts the environments of ansible-test, which then get the pip that it pins; runs on all of PYTHONS."""

BOOTSTRAP_NAMES = ("get_pip_24_2.py", "get_pip_25_2.py")
"""The files that ansible-core 2.19 and 2.21 would download from a host that is no package index (ansible-test: setup/requirements.py)."""

BOOTSTRAP = """\
import sys

sys.path.insert(0, {wheel!r})
from pip._internal.cli.main import main

# These options are of the original script, which this one replaces; pip does not know them.
sys.exit(main(["install"] + [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]))
"""


def main() -> int:
    arguments = sys.argv[1:]
    everything = ALL_PYTHONS in arguments
    home = project_cache_dir() / "ansible-test"
    with locked(home.with_suffix(".lock")):
        _prepare_home(home)
    installed = {version: found for version in PYTHONS if (found := interpreters.find(version))}
    if missing := [version for version in PYTHONS if version not in installed]:
        print(f"not tested, because not installed: Python {', '.join(missing)}", flush=True)
    # Without these options, ansible-test also takes the Python of /usr/bin.
    versions = installed if everything else dict.fromkeys((min(installed, key=PYTHONS.index), max(installed, key=PYTHONS.index)))
    targets = [word for version in versions for word in ("--target-python", version)]
    with tempfile.TemporaryDirectory() as pythons, working_copy(without=NEVER_SHIPPED) as copy:
        for version, found in installed.items():
            (Path(pythons) / f"python{version}").symlink_to(interpreters.real_path(found))
        # Only these folders: pyenv has a shim for every version, and the shims of versions that are not selected fail.
        path = [str(ENVIRONMENT / "bin"), pythons, "/usr/bin", "/bin"]
        environment = {"HOME": str(home), "PATH": os.pathsep.join(path), "LANG": "C.UTF-8"}
        command = ["ansible-test", "sanity", "--color", "no", *targets, *(word for word in arguments if word != ALL_PYTHONS)]
        return subprocess.run(command, cwd=copy, env=environment).returncode


def _prepare_home(home: Path) -> None:
    scripts = home / ".ansible" / "test" / "cache"
    scripts.mkdir(parents=True, exist_ok=True)
    wheel = _pip_wheel(scripts)
    for name in BOOTSTRAP_NAMES:
        (scripts / name).write_text(BOOTSTRAP.format(wheel=str(wheel)))
    # pip's settings and cache are those of the user.
    for name in (".config/pip", ".cache/pip"):
        link = home / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(Path.home() / name)
    _write_pip_settings(home / ".pip" / "pip.conf")


def _pip_wheel(folder: Path) -> Path:
    wheel = folder / f"pip-{PIP}-py3-none-any.whl"
    if not wheel.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        if subprocess.run([*command, "--dest", str(folder), f"pip=={PIP}"]).returncode != 0:
            raise ToolError(f"pip download pip=={PIP} failed. Check that pip reaches a package index, then run this again.")
    return wheel


def _write_pip_settings(file: Path) -> None:
    """ansible-test hands no PIP_* variables down, so they become a file."""
    names = {name: name[len("PIP_") :].lower().replace("_", "-") for name in os.environ if name.startswith("PIP_")}
    lines = ["[global]", *(f"{setting} = {os.environ[name]}" for name, setting in names.items() if setting != "config-file")]
    file.parent.mkdir(exist_ok=True)
    file.touch(mode=0o600)
    file.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    exit_with(main, "sanity")
