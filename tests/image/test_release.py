# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""`make release` in a clone, as docs/development/release.md describes it: files, checksums and tag, also after a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from lab import base_image
from lab.layout import project_cache_dir
from tools.collection_version import current
from tools.paths import ROOT
from tools.release import CHECKSUMS, PROVENANCE, tag_of
from tools.working_copy import repository_files

VERSION = current(ROOT)
LIMIT_S = 900


class Maintainer:
    """A user with a clone of the present files as one commit."""

    def __init__(self, folder: Path) -> None:
        self.clone = folder / "clone"
        dropped = ("ANSIBLE_", "GIT_", "IMAGE_", "MAKE", "MFLAGS")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
        identity = {f"GIT_{who}_NAME": "maintainer" for who in ("AUTHOR", "COMMITTER")}
        identity |= {f"GIT_{who}_EMAIL": "maintainer@example.org" for who in ("AUTHOR", "COMMITTER")}
        self.environment = kept | identity | {"XDG_CACHE_HOME": str(project_cache_dir().parent)}

    def run(self, *command: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=folder or self.clone,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
        )

    def succeed(self, *command: str, folder: Path | None = None) -> str:
        done = self.run(*command, folder=folder)
        assert done.returncode == 0, done.stdout[-4000:]
        return done.stdout

    def make(self, target: str, base: str) -> subprocess.CompletedProcess[str]:
        """Run a target without the checks, which have tests of their own."""
        return self.run("make", target, "RELEASE_CHECKS=", f"IMAGE_BASE={base}", f"IMAGE_PYTHON={base_image.PYTHON}")


@pytest.fixture
def maintainer(tmp_path: Path) -> Maintainer:
    user = Maintainer(tmp_path)
    for name in repository_files():
        (user.clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, user.clone / name, follow_symlinks=False)
    # A version has no fragment any more: `make changelog` has put them into its section.
    shutil.rmtree(user.clone / "changelogs" / "fragments", ignore_errors=True)
    for command in (("init", "--quiet"), ("add", "--all"), ("commit", "--quiet", "--message", "the release")):
        user.succeed("git", *command)
    return user


@pytest.mark.full
@pytest.mark.timeout(2 * LIMIT_S)
def test_a_release_is_made_once_also_after_a_failure_and_others_can_build_it_again(
    maintainer: Maintainer, base: str, tmp_path: Path
) -> None:
    dist, tag = maintainer.clone / "dist", tag_of(VERSION)
    failed = maintainer.make("release", "kube-scheduling.lab/missing:1")
    assert failed.returncode != 0 and "services cannot be built" in failed.stdout, failed.stdout[-3000:]
    assert maintainer.succeed("git", "tag") == "" and not (dist / CHECKSUMS).exists()

    made = maintainer.make("release", base)
    assert made.returncode == 0, made.stdout[-4000:]
    (archive,) = dist.glob("kube-scheduling-services-*.tar")
    assert archive.name.startswith(f"kube-scheduling-services-{VERSION}-") and archive.name.endswith("-amd64.oci.tar")
    files = {f"onprem-kube_scheduling-{VERSION}.tar.gz", f"onprem_kube_scheduling-{VERSION}-py3-none-any.whl", "services-sbom.cdx.json"}
    images = {archive.name, f"{archive.name}.sha256"}
    assert {file.name for file in dist.iterdir()} == files | images | {CHECKSUMS, PROVENANCE}
    checked = maintainer.succeed("sha256sum", "--check", "--strict", CHECKSUMS, folder=dist)
    assert {line.partition(": ")[0] for line in checked.splitlines()} == files | images | {PROVENANCE}
    commit = maintainer.succeed("git", "rev-parse", "HEAD").strip()
    notes = (dist / PROVENANCE).read_text()
    assert f"- commit: {commit}, " in notes and f"| base image | {base}, sha256:" in notes and "unknown" not in notes
    assert maintainer.succeed("git", "cat-file", "-t", tag).strip() == "tag"
    message = maintainer.succeed("git", "tag", "--list", "--format=%(contents)", tag)
    assert {line.split()[1] for line in message.splitlines()[2:] if line} == files

    again = maintainer.make("release", base)
    assert again.returncode != 0 and f"{VERSION} cannot be released:\n- the tag {tag} exists" in again.stdout
    written = archive.stat().st_mtime_ns
    repeated = maintainer.make("release-files", base)
    assert repeated.returncode == 0 and archive.stat().st_mtime_ns == written, repeated.stdout[-3000:]
    maintainer.succeed("make", "release-compare")

    verifier = tmp_path / "elsewhere"
    maintainer.succeed("git", "clone", "--quiet", "--branch", tag, str(maintainer.clone), str(verifier))
    maintainer.succeed("make", "build", "wheel", "sbom", "release-compare", folder=verifier)
    (verifier / "dist" / "services-sbom.cdx.json").write_text("{}")
    assert "services-sbom.cdx.json: the tag has" in maintainer.run("make", "release-compare", folder=verifier).stdout
