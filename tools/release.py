# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Makes the files of a release in dist/, and its tag. `make release` calls it: python -m tools.release check, files or tag.
`make release-compare` compares the files with the checksums in the message of the tag.

docs/development/release.md is the guide. Nothing is published.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version as installed_version
from pathlib import Path

import yaml

from lab.progress import run_with_heartbeat
from tools import build, collection_version, sbom, wheel
from tools.errors import ToolError, exit_with
from tools.paths import ENVIRONMENT, ROOT

DIST = build.DIST
CHECKSUMS, PROVENANCE = "SHA256SUMS", "PROVENANCE.md"
REPRODUCIBLE = (".tar.gz", ".whl", ".cdx.json")
INPUTS = (
    *("requirements.txt", "requirements-dev.txt", "tools/constraints.txt", "tools/requirements-wheel.txt", "tools/requirements-sbom.txt"),
    *("services/requirements.txt", "services/requirements-build.txt", "services/Containerfile"),
)
"""The files whose pins decide what the files of a release are."""
DEFAULT_BASE, DEFAULT_PYTHON = "docker.io/library/python:3.13-slim", "3.13"
"""The defaults of the role service_image."""
PLAY = """\
- hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: onprem.kube_scheduling.service_image, tasks_from: reference, public: true}
    - onprem.kube_scheduling.service_image_build: {state: present}
      register: image
    - ansible.builtin.copy: {content: "{{ {'archive': image.file} | to_json }}", dest: "{{ answer }}", mode: "0644"}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description="Make the files or the tag of a release.")
    parser.add_argument("step", choices=("check", "files", "tag", "compare"))
    parser.add_argument("--tagged", action="store_true", help="with check: the tag may exist, if it is on this commit")
    options = parser.parse_args()
    version = collection_version.current(ROOT)
    if options.step == "check":
        refuse(ROOT, version, tagged=options.tagged)
        print(f"release {version}: the tree is clean, and the changelog has the version")
    elif options.step == "files":
        for file in make_files(version):
            print(file.relative_to(ROOT))
    elif options.step == "tag":
        refuse(ROOT, version, tagged=False)
        tag(version)
    else:
        compare(DIST, _git(ROOT, "tag", "--list", "--format=%(contents)", tag_of(version)))
        print(f"release {version}: the files are those of the tag {tag_of(version)}")
    return 0


def tag_of(version: str) -> str:
    return f"v{version}"


# --- refusals ---------------------------------------------------------------------------------------------------------


def refuse(root: Path, version: str, *, tagged: bool) -> None:
    """Raise ToolError with all reasons for which the tree cannot be released. ``tagged``: whether its commit may have the tag."""
    found = (_changes(root), _tag(root, version, tagged=tagged), *_changelog(root, version), _places(root))
    if reasons := [reason for reason in found if reason]:
        raise ToolError("\n".join([f"{version} cannot be released:", *(f"- {reason}" for reason in reasons)]))


def _changes(root: Path) -> str:
    changed = [line[3:] for line in _git(root, "status", "--porcelain").splitlines()]
    if not changed:
        return ""
    more = f" and {len(changed) - 5} more" if len(changed) > 5 else ""
    return f"the tree has changes that are not committed: {', '.join(changed[:5])}{more}. Commit or remove them."


def _tag(root: Path, version: str, *, tagged: bool) -> str:
    name = tag_of(version)
    if not _git(root, "tag", "--list", name):
        return ""
    commit = _git(root, "rev-list", "--max-count=1", name)
    if tagged and commit == _git(root, "rev-parse", "HEAD"):
        return ""
    remedy = (
        "Check it out to build its files again" if tagged else f"`make release-files` makes its files, and `git tag -d {name}` removes it"
    )
    return f"the tag {name} exists, on commit {commit[:12]}. {remedy}, or choose the next version: make version VERSION=..."


def _changelog(root: Path, version: str) -> list[str]:
    file = root / "changelogs" / "changelog.yaml"
    releases = yaml.safe_load(file.read_text(encoding="utf-8"))["releases"] if file.exists() else {}
    reasons = []
    if version not in releases:
        reasons.append(
            f"changelogs/changelog.yaml has no section {version}. Write changelogs/fragments/{version}.yml with release_summary, "
            "and run make changelog."
        )
    fragments = sorted(path.name for path in (root / "changelogs" / "fragments").glob("*.y*ml"))
    if fragments and version in releases:
        reasons.append(
            f"the section {version} of the changelog lacks fragments: {', '.join(fragments)}. Choose the next version "
            "(make version VERSION=...) and run make changelog, or remove them."
        )
    return reasons


def _places(root: Path) -> str:
    version = collection_version.current(root)
    wrong = sorted({f"{file} ({found})" for file, found in collection_version.named(root) if found != version})
    return f"files name another version: {', '.join(wrong)}. Run make version." if wrong else ""


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReleaseFile:
    """One file of the release."""

    path: Path

    @property
    def is_reproducible(self) -> bool:
        """Return whether another build of the same commit has the same bytes. The file system of the image has times of the build."""
        return self.path.name.endswith(REPRODUCIBLE)

    @property
    def sha256(self) -> str:
        with self.path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()


def make_files(version: str) -> list[Path]:
    """Make all files in dist/. The checksums are last, so that an interrupted run has none. It can be repeated."""
    DIST.mkdir(exist_ok=True)
    for old in [*DIST.glob("*.tar.gz"), *DIST.glob("*.whl"), DIST / CHECKSUMS, DIST / PROVENANCE]:
        old.unlink(missing_ok=True)
    base, python = os.environ.get("IMAGE_BASE") or DEFAULT_BASE, os.environ.get("IMAGE_PYTHON") or DEFAULT_PYTHON
    sbom.write(sbom.FILE)
    archive = _image(base, python)
    files = [
        *(ReleaseFile(file) for file in (build.build(DIST), wheel.build(DIST), sbom.FILE)),
        *(ReleaseFile(file) for file in (archive, archive.with_name(f"{archive.name}.sha256"))),
    ]
    notes = DIST / PROVENANCE
    notes.write_text(provenance(version, files, base, python), encoding="utf-8")
    checksums = "".join(f"{file.sha256}  {file.path.name}\n" for file in [*files, ReleaseFile(notes)])
    (DIST / CHECKSUMS).write_text(checksums, encoding="utf-8")
    return [*(file.path for file in files), notes, DIST / CHECKSUMS]


def _image(base: str, python: str) -> Path:
    """Build the image with a container engine, as the role does, and return its archive. One of the same content is kept."""
    variables = {"service_image_base": base, "service_image_python_version": python, "service_image_archive_folder": str(DIST)}
    variables |= {"ansible_python_interpreter": sys.executable}
    with tempfile.TemporaryDirectory() as scratch:
        play, answer = Path(scratch, "play.yml"), Path(scratch, "answer.json")
        play.write_text(PLAY)
        command = [str(ENVIRONMENT / "bin" / "ansible-playbook"), "-i", "localhost,", str(play)]
        command += ["--extra-vars", json.dumps({**variables, "answer": str(answer)})]
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"), "ANSIBLE_NOCOLOR": "1"}
        result = run_with_heartbeat(command, what="image of the services", log=print, env=environment, cwd=ROOT)
        if result.code != 0:
            raise ToolError(
                f"the image of the services cannot be built:\n{result.tail(12)}\nIMAGE_BASE and IMAGE_PYTHON choose another base image."
            )
        return Path(json.loads(answer.read_text())["archive"])


def provenance(version: str, files: Sequence[ReleaseFile], base: str, python: str) -> str:
    """Return the notes about the origin of the files."""
    tools = {
        "Python": platform.python_version(),
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
        "ansible-core": installed_version("ansible-core"),
        "hatchling": _pin("tools/requirements-wheel.txt", "hatchling"),
        "cyclonedx-bom": _pin("tools/requirements-sbom.txt", "cyclonedx-bom"),
        "container engine": _engine("--version"),
        "base image": f"{base}, {_engine('image', 'inspect', '--format', '{{.Id}}{{range .RepoDigests}} {{.}}{{end}}', base)}",
        "Python of the image": python,
    }
    rows = [f"| {file.path.name} | {file.sha256} | {'yes' if file.is_reproducible else 'no'} |" for file in files]
    inputs = [f"| {name} | {hashlib.sha256((ROOT / name).read_bytes()).hexdigest()} |" for name in INPUTS]
    return "\n".join(
        [
            f"# Origin of onprem.kube_scheduling {version}",
            "",
            f"- repository: {_galaxy_field('repository')}",
            f"- commit: {_git(ROOT, 'rev-parse', 'HEAD')}, {_git(ROOT, 'log', '-1', '--format=%cI')}",
            f"- tag: {tag_of(version)}",
            "- command: make release",
            "",
            *("| tool | version |", "|---|---|", *(f"| {name} | {found} |" for name, found in tools.items()), ""),
            *("| file | SHA-256 | another build has the same bytes |", "|---|---|---|", *rows, ""),
            *("| input | SHA-256 |", "|---|---|", *inputs, ""),
            "To verify: check out the tag, and run `make build wheel sbom release-compare`. The file system of the image has times of the",
            "build, so that its archive differs. The hash in the name of the image covers its sources and libraries, and the name of its",
            "base image.",
            "",
        ]
    )


def _pin(file: str, package: str) -> str:
    (found,) = re.findall(rf"^{package}==(\S+)", (ROOT / file).read_text(), re.MULTILINE)
    return str(found)


def _galaxy_field(name: str) -> str:
    return str(yaml.safe_load((ROOT / "galaxy.yml").read_text())[name])


def _engine(*arguments: str) -> str:
    """Return what the container engine prints. It may not have the base image any more if the archive exists already."""
    engine = next((name for name in ("docker", "podman") if shutil.which(name)), "docker")
    try:
        return subprocess.run([engine, *arguments], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


# --- tag --------------------------------------------------------------------------------------------------------------


def tag(version: str) -> None:
    """Make the annotated tag. Its message has the checksums of the files that another build can repeat."""
    checksums = DIST / CHECKSUMS
    if not checksums.exists():
        raise ToolError("dist/SHA256SUMS is missing: make release makes the files first.")
    lines = [line for line in checksums.read_text(encoding="utf-8").splitlines() if line.endswith(REPRODUCIBLE)]
    message = "\n".join([f"onprem.kube_scheduling {version}", "", *lines])
    _git(ROOT, "tag", "--annotate", tag_of(version), "--message", message)
    print(f"release {version}: the tag {tag_of(version)} is made. `git push origin {tag_of(version)}` publishes it.")


def compare(folder: Path, message: str) -> None:
    """Raise ToolError if the files of a folder differ from the checksums in the message of a tag."""
    expected = {name: checksum for checksum, name in re.findall(r"^([0-9a-f]{64})  (\S+)$", message, re.MULTILINE)}
    if not expected:
        raise ToolError("the tag has no checksums in its message: it is missing, or `make release` has not made it.")
    reasons = []
    for name, checksum in expected.items():
        file = folder / name
        found = ReleaseFile(file).sha256 if file.is_file() else "no file"
        if found != checksum:
            reasons.append(f"- {name}: the tag has {checksum}, and dist/ has {found}")
    if reasons:
        raise ToolError("\n".join(["the files differ from those of the tag:", *reasons]))


def _git(root: Path, *arguments: str) -> str:
    answer = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    if answer.returncode != 0:
        raise ToolError(f"git {' '.join(arguments[:2])} failed: {answer.stderr.strip()}")
    return answer.stdout.rstrip("\n")


if __name__ == "__main__":
    exit_with(main, "make release")
