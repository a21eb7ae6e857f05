# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A copy of the repository where Ansible's tools expect a collection: below ansible_collections/NAMESPACE/NAME.

ansible-test refuses links, and a copy of what git knows holds no caches and no left-overs.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.errors import ToolError
from tools.paths import COLLECTIONS, NAME, NAMESPACE, ROOT


@contextmanager
def working_copy(*, without: Sequence[str] = ()) -> Iterator[Path]:
    """The copied collection with its dependencies beside it; `without` names top-level entries to leave out."""
    with tempfile.TemporaryDirectory(prefix=f"{NAME}-") as scratch:
        collections = Path(scratch) / "ansible_collections"
        copy = collections / NAMESPACE / NAME
        for name in repository_files():
            if name.parts[0] not in without:
                _copy(ROOT / name, copy / name)
        (collections / "kubernetes").symlink_to(COLLECTIONS / "ansible_collections" / "kubernetes")
        yield copy


def repository_files() -> list[Path]:
    """Paths of the files that git tracks or would add, relative to the root."""
    answer = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if answer.returncode != 0:
        raise ToolError(f"git ls-files in {ROOT} failed: {answer.stderr.strip()}. The checks need a git checkout.")
    names = (Path(name) for name in answer.stdout.split("\0") if name)
    # A tracked file may have been deleted and not yet committed so.
    return sorted(name for name in names if (ROOT / name).is_file() or (ROOT / name).is_symlink())


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target, follow_symlinks=False)
