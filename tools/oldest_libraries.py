# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Runs tests with the oldest Python, and with the oldest version of each library and collection that the requirements allow.

    python -m tools.oldest_libraries [PART...]

Users have these versions, for example those of their operating system. Other checks have the newest ones.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.layout import project_cache_dir
from tools import collections_of_ansible, env, interpreters, venvs
from tools.errors import ToolError, exit_with
from tools.working_copy import working_copy

TEST_TOOLS = ("ansible-core", "hypothesis", "markdown-it-py", "promql-parser", "pytest", "pytest-timeout", "pytest-xdist", "trustme")
"""The tools that the tests need, with their pinned versions. The others need newer libraries."""
OLDEST_VERSION = re.compile(r"([\w.-]+)>=([\w.]+)")
PRODUCT = ("kube", "model", "operations", "report", "rescue", "scheduler", "scheduler_config", "spread", "state")
SIDE_BY_SIDE = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")


@dataclass(frozen=True)
class Part:
    """The files with the requirements, of which a later one has precedence, and the arguments of pytest."""

    requirements: tuple[Path, ...]
    unit: tuple[str, ...]
    integration: tuple[str, ...]


COLLECTION, EXTENDER = env.REQUIREMENTS[:2]
PARTS = {
    "collection": Part(
        (COLLECTION,),
        (
            *(f"tests/unit/{name}" for name in PRODUCT),
            *(f"tests/unit/services/{name}" for name in ("common", "kubectl_spread", "rebalancer", "rescuer")),
        ),
        tuple(f"tests/integration/{name}" for name in ("kube", "kubectl", "modules", "rebalancer", "rescue", "rescuer", "state")),
    ),
    "extender": Part(
        (COLLECTION, EXTENDER),
        # The versions of scipy for the oldest numpy are less exact than the formula that this file compares with scipy.
        ("tests/unit/services/extender", "--ignore=tests/unit/services/extender/agents/safe/test_beta.py"),
        ("tests/integration/extender",),
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Run tests with the oldest allowed libraries.")
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART", help=f"default: {' and '.join(PARTS)}")
    codes = [run(name, PARTS[name]) for name in parser.parse_args().parts or PARTS]
    return max(codes)


def run(name: str, part: Part) -> int:
    """Run the tests of a part in a copy of the repository, and return the exit code of pytest."""
    version = ".".join(map(str, interpreters.OLDEST))
    python = interpreters.find(version)
    if python is None:
        raise ToolError(f"there is no Python {version}: install it, for example with pyenv")
    venv = venvs.ensure(f"oldest-{name}", python, [requirements_file(part.requirements)])
    collections = collections_of_ansible.ensure(venv / "bin" / "python", interpreters.OLDEST)
    with working_copy() as copy:
        env.lay_links(copy / ".venv", venv, collections)
        subprocess.run(["git", "init", "--quiet"], cwd=copy, check=True)  # tests ask git for the files
        subprocess.run([copy / ".venv" / "bin" / "python", "-m", "pip", "freeze"], check=True)
        codes = [pytest(copy, *part.unit, "-m", "not ci_more and not plays"), pytest(copy, *part.integration, "-m", "core and not plays")]
    return max(codes)


def pytest(copy: Path, *arguments: str) -> int:
    """Run pytest in the copy, and return its exit code."""
    environment = os.environ | {"PATH": f"{copy}/.venv/bin:{os.environ['PATH']}"}
    return subprocess.run([".venv/bin/python", "-m", "pytest", *arguments, *SIDE_BY_SIDE], cwd=copy, env=environment).returncode


def requirements_file(files: Sequence[Path]) -> Path:
    """Return a file in the cache with the oldest allowed versions and the tools of the tests."""
    text = "".join(f"{line}\n" for line in requirements(files))
    file = project_cache_dir() / "requirements" / hashlib.sha256(text.encode()).hexdigest()[:12] / "oldest.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def requirements(files: Sequence[Path]) -> Iterator[str]:
    """Yield the lines of a file with requirements: the oldest versions that the files allow, and the pinned tools of the tests."""
    oldest = dict(found for file in files for found in OLDEST_VERSION.findall(file.read_text(encoding="utf-8")))
    yield from (f"{name}=={version}" for name, version in sorted(oldest.items()))
    for file in (env.REQUIREMENTS[2], *env.CONSTRAINTS):
        for line in file.read_text(encoding="utf-8").splitlines():
            if re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] in TEST_TOOLS:
                yield line


if __name__ == "__main__":
    exit_with(main, "oldest-libraries")
