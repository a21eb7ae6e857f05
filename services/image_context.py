# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The build context of the image of the services: its files, the hash of its content, and the wheels in it.

It runs on the Ansible controller, is called by its path, and needs only Python's own library. Only this file lists what goes into the
image.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

SERVICES = Path(__file__).resolve().parent
ROOT = SERVICES.parent
CONTAINERFILE = SERVICES / "Containerfile"
LOCK = SERVICES / "requirements.txt"
BUILD_LOCK = SERVICES / "requirements-build.txt"
BUILD_PROGRAMS = tuple(SERVICES / f"image_{name}.py" for name in ("slim", "elf", "bytecode"))
"""The programs that the first stage of the build runs."""

SOURCES = (SERVICES, ROOT / "plugins" / "module_utils")
SUFFIXES = (".py", ".yml")
LEFT_OUT = {
    SERVICES / "kubectl_spread",
    *(ROOT / "plugins" / "module_utils" / name for name in ("hosts", "installation")),
    *(ROOT / "plugins" / "module_utils" / "operations" / name for name in ("apply_set", "maintenance", "scheduler_role")),
}
"""Programs for the machines of people, and the code of installations, which run in no pod."""

COLLECTION = "collection/ansible_collections/onprem/kube_scheduling"
"""The folder of the collection in the context."""

MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}
"""The machine in the tags of wheels, by the name that container engines use."""

OLDEST_GLIBC, NEWEST_GLIBC = 17, 36
"""The minor versions of glibc 2 whose wheels are taken. 36 is the glibc of the oldest supported base image, Debian 12."""

HASH_LENGTH = 12


class ContextError(Exception):
    """Says what was wrong and what to do about it."""


def source_files() -> dict[str, Path]:
    """Return the files of the collection that go into the image, by their place in the context."""
    found = {}
    for folder in SOURCES:
        for file in folder.rglob("*"):
            if LEFT_OUT.intersection(file.parents) or file in (*BUILD_PROGRAMS, Path(__file__).resolve()):
                continue
            if file.suffix in SUFFIXES and file.is_file():
                found[f"{COLLECTION}/{file.relative_to(ROOT).as_posix()}"] = file
    return {**dict(sorted(found.items())), f"{COLLECTION}/LICENSE": ROOT / "LICENSE"}


def manifest() -> bytes:
    """Return the file in the image that has the version. It has nothing that changes with files which are not in the image."""
    return json.dumps({"collection_info": {"namespace": "onprem", "name": "kube_scheduling", "version": collection_version()}}).encode()


def collection_version() -> str:
    # By its path, because this file is also called by its path and then belongs to no package.
    spec = importlib.util.spec_from_file_location("version", SERVICES / "common" / "version.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return str(module.version())


def content_hash(*, base: str, python: str, architecture: str) -> str:
    """Return the hash of everything that goes into the image. The wheels are in it by their hashes in the lock."""
    digest = hashlib.sha256(json.dumps([base, python, architecture]).encode())
    for name, content in _contents():
        digest.update(f"\0{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:HASH_LENGTH]


def _contents() -> Iterable[tuple[str, bytes]]:
    for file in (CONTAINERFILE, LOCK, BUILD_LOCK, *BUILD_PROGRAMS):
        yield file.name, file.read_bytes()
    yield f"{COLLECTION}/MANIFEST.json", manifest()
    for name, file in source_files().items():
        yield name, file.read_bytes()


def describe(*, base: str, python: str, architecture: str) -> dict[str, str]:
    """Return the version, the hash, and the tag that has both."""
    version = collection_version()
    found = content_hash(base=base, python=python, architecture=architecture)
    return {"version": version, "hash": found, "tag": f"{version}-{found}"}


def locked_hashes(lock: Path) -> dict[str, set[str]]:
    """Return the SHA-256 sums of the wheels in a lock, by the name of the package."""
    text = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = (line for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {line.partition("==")[0].strip(): set(re.findall(r"--hash=sha256:([0-9a-f]{64})", line)) for line in lines}


def pip_platforms(architecture: str) -> list[str]:
    """Return the platforms of wheels that an image of this architecture can use, as arguments of pip."""
    machine = MACHINES[architecture]
    names = [f"manylinux_2_{minor}_{machine}" for minor in range(NEWEST_GLIBC, OLDEST_GLIBC - 1, -1)]
    return [f"--platform={name}" for name in (*names, f"manylinux2014_{machine}")]


def pip_target(*, python: str, architecture: str) -> list[str]:
    """Return the arguments of pip that choose the wheels of an image, on any machine and with any Python."""
    return ["--only-binary=:all:", "--implementation=cp", f"--python-version={python}", *pip_platforms(architecture)]


def download(folder: Path, *, python: str, architecture: str, pip_arguments: Sequence[str]) -> None:
    """Download the locked wheels into a folder. pip checks their hashes."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
    command += [*pip_target(python=python, architecture=architecture), f"--dest={folder}", *pip_arguments]
    answer = subprocess.run([*command, f"--requirement={LOCK}", f"--requirement={BUILD_LOCK}"], capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        last = "\n".join((answer.stdout + answer.stderr).strip().splitlines()[-5:])
        raise ContextError(
            f"pip could not download the wheels of the image for Python {python} on {architecture}: {last}\n"
            "Name a package index that this machine reaches in service_image_pip_arguments, "
            "or a folder with the wheels in service_image_wheelhouse"
        )


def assemble(folder: Path, *, wheelhouse: Path) -> None:
    """Write the build context into an empty folder."""
    wheels = _locked_wheels(wheelhouse)
    (folder / "wheelhouse").mkdir(parents=True)
    for wheel in wheels:
        is_pip = _package_of(wheel) == "pip"
        shutil.copyfile(wheel, folder / "pip.whl" if is_pip else folder / "wheelhouse" / wheel.name)
    for name, content in _contents():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


def _locked_wheels(wheelhouse: Path) -> list[Path]:
    """Return the wheels of a folder that the locks name. Raises ContextError if a package has none."""
    locked = {**locked_hashes(LOCK), **locked_hashes(BUILD_LOCK)}
    found = [file for file in sorted(wheelhouse.glob("*.whl")) if _sum_of(file) in locked.get(_package_of(file), ())]
    missing = sorted(set(locked) - {_package_of(file) for file in found})
    if missing:
        raise ContextError(
            f"{wheelhouse} has no wheel of {', '.join(missing)} with a hash from {LOCK.name} or {BUILD_LOCK.name}: "
            "fill the folder with pip download --require-hashes from these files, of this version of the collection"
        )
    return found


def _package_of(wheel: Path) -> str:
    return re.sub(r"[-_.]+", "-", wheel.name.partition("-")[0]).lower()


def _sum_of(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands, and return the exit code."""
    given = _parser().parse_args(arguments)
    try:
        if given.command == "describe":
            print(json.dumps(describe(base=given.base, python=given.python, architecture=given.architecture)))
        elif given.command == "wheelhouse":
            download(given.to, python=given.python, architecture=given.architecture, pip_arguments=given.pip_argument)
        else:
            assemble(given.to, wheelhouse=given.wheelhouse)
    except (ContextError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="The build context of the image of the services.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    describing = commands.add_parser("describe", help="print the version, the hash of the content and the tag as JSON")
    describing.add_argument("--base", required=True, help="the name of the base image")
    wheels = commands.add_parser("wheelhouse", help="download the locked wheels into a folder")
    for command in (describing, wheels):
        command.add_argument("--python", required=True, help="the Python of the base image, such as 3.13")
        command.add_argument("--architecture", required=True, choices=list(MACHINES), help="the architecture of the image")
    wheels.add_argument("--pip-argument", action="append", default=[], help="one more argument of pip, such as --index-url=URL")
    assembling = commands.add_parser("assemble", help="write the build context into an empty folder")
    assembling.add_argument("--wheelhouse", required=True, type=Path, help="the folder with the wheels")
    for command in (wheels, assembling):
        command.add_argument("--to", required=True, type=Path, metavar="FOLDER", help="the folder to write")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
