# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Checks the workflow files of the public CI with actionlint, which is built from source once."""

from __future__ import annotations

import argparse
import os
import subprocess

from lab.errors import LabError
from lab.go_build import GIGABYTE, GoModule, Program
from lab.layout import cache_dir
from tools.errors import ToolError, exit_with
from tools.paths import ROOT

VERSION = "1.7.12"
ACTIONLINT = GoModule(
    folder=ROOT / "tools" / "actionlint",
    programs=(Program("actionlint", "github.com/rhysd/actionlint/cmd/actionlint"),),
    stamps={},
    largest=f"github.com/rhysd/actionlint@v{VERSION}",
    cold_build_bytes=GIGABYTE,
)
FOLDER = ROOT / ".github" / "workflows"


def main() -> int:
    parser = argparse.ArgumentParser(description="Check the workflow files.")
    parser.add_argument("--if-built", action="store_true", help="do not build actionlint if the cache does not have it")
    options = parser.parse_args()
    if options.if_built and ACTIONLINT.missing(cache_dir() / ACTIONLINT.cache_key()):
        print("workflows: not checked, because actionlint is not built. `make workflows` builds it.")
        return 0
    files = sorted(map(str, FOLDER.glob("*.y*ml")))
    if not files:
        raise ToolError(f"{FOLDER} has no workflow file.")
    os.environ.pop("LAB_BIN_DIR", None)  # the folder with the programs of the simulated cluster
    try:
        program = ACTIONLINT.ensure(print) / ACTIONLINT.programs[0].name
    except LabError as error:
        raise ToolError(str(error)) from error
    # Without shellcheck and pyflakes, which some machines have on PATH, so that each machine has the same findings.
    return subprocess.run([str(program), "-no-color", "-shellcheck=", "-pyflakes=", *files], cwd=ROOT).returncode


if __name__ == "__main__":
    exit_with(main, "workflows")
