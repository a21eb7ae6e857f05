# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A repository of Debian packages in a folder, for machines without a network. It has the packages that an image lacks.

It is kept in the cache.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from lab.debian_image import DebianImage
from lab.kind.commands import answer, run
from lab.layout import cache_dir
from lab.locks import locked

PACKAGES = ("prometheus-node-exporter",)
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
"""The keys that debootstrap trusts."""
INDEX = "Packages"
FROM_IMAGE = ("etc/apt/sources.list", "var/lib/dpkg/status")
FOLDERS = ("etc/apt", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial")
REMEDY = "Check that apt-get reaches a Debian mirror, then run the same command again."


def ensure(image: DebianImage, log: Callable[[str], None], *, install: bool) -> Path:
    """Return the folder with the packages and their index. It is made if the cache lacks it. `install`: as in `DebianImage.ensure`."""
    key = hashlib.sha256("\0".join((image.reference, *PACKAGES)).encode()).hexdigest()[:12]
    folder = cache_dir() / f"packages-{image.release}-{key}"
    with locked(folder.with_suffix(".lock"), why=f"which downloads packages of {image.release}", log=log):
        if not folder.is_dir():
            _make(folder, image, log, install=install)
    return folder


def _make(folder: Path, image: DebianImage, log: Callable[[str], None], *, install: bool) -> None:
    archive = image.archive(log, install=install)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        root, unfinished = Path(scratch, "root"), Path(scratch, folder.name)
        for name in FOLDERS:
            (root / name).mkdir(parents=True)
        # The mirror of debootstrap, and the packages that need no download.
        run(["tar", "-C", str(root), "-xf", str(archive), *(f"./{name}" for name in FROM_IMAGE)], what="tar")
        apt = ["apt-get", "-q", "-y", *(word for option in _options(root) for word in ("-o", option))]
        run([*apt, "update"], what=f"apt-get update for {image.release}", log=log, remedy=REMEDY)
        download = [*apt, "install", "--download-only", "--no-install-recommends", *PACKAGES]
        run(download, what=f"apt-get download for {image.release}", log=log, remedy=REMEDY)
        unfinished.mkdir(mode=0o755)
        for package in (root / "var/cache/apt/archives").glob("*.deb"):
            shutil.move(package, unfinished)
        (unfinished / INDEX).write_text(index(unfinished))
        # Under its final name only when complete, so that an interrupted run leaves nothing half done.
        unfinished.rename(folder)


def _options(root: Path) -> tuple[str, ...]:
    """Options with which apt-get works on the files below `root` only."""
    return (
        f"Dir={root}",
        f"Dir::State::status={root}/var/lib/dpkg/status",
        f"Dir::Etc::trusted={KEYRING}",
        # The user _apt cannot read the folder.
        "APT::Sandbox::User=root",
        "Debug::NoLocking=true",
    )


def index(folder: Path) -> str:
    """Return the file `Packages` of a folder of packages: their own fields, and the file with its size and checksum."""
    entries = []
    for package in sorted(folder.glob("*.deb")):
        content = package.read_bytes()
        fields = answer(["dpkg-deb", "--field", str(package)]).strip()
        file = f"Filename: ./{package.name}\nSize: {len(content)}\nSHA256: {hashlib.sha256(content).hexdigest()}"
        entries.append(f"{fields}\n{file}\n")
    return "\n".join(entries)
