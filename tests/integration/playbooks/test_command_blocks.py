# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The commands of the documents work: blocks with the mark `run: lab` are run in order, in a clone of the repository on a lab cluster."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.layout import project_cache_dir
from tests.guide_blocks import LAB, OUTPUT, Block, blocks, missing_output
from tools import docs
from tools.paths import ROOT
from tools.working_copy import repository_files

FROM_NOTHING = {Path("docs/getting-started.md")}
"""Documents whose own commands clone the repository and start the cluster."""
IN_EACH_TEST_RUN = {Path("docs/getting-started.md"), Path("README.md")}
REPOSITORY_URL = "https://github.com/onprem/kube_scheduling.git"
LIMIT_S = 900
DOWN = re.compile(r"\blab[- ]down\b")
DOCUMENTS = sorted({block.document for page in docs.pages() for block in blocks(page) if block.mark == LAB})
MARKED = [
    pytest.param(document, id=str(document), marks=[] if document in IN_EACH_TEST_RUN else pytest.mark.full) for document in DOCUMENTS
]
CLUSTER = """
make lab-up
export KUBECONFIG="$PWD/.lab/kubeconfig" PATH="$PWD/.venv/bin:$(.venv/bin/python -m lab binaries):$PATH"
kubectl delete namespace shop trial --ignore-not-found
kubectl create namespace shop
kubectl cordon worker-2 worker-3 worker-4 worker-5 worker-6
kubectl --namespace shop create deployment web --image=registry.k8s.io/pause:3.10 --replicas=4
kubectl --namespace shop rollout status deployment web
kubectl uncordon worker-2 worker-3 worker-4 worker-5 worker-6
"""
"""The reader's cluster: all replicas of one workload are on one node."""


class Reader:
    """A user who follows a document: the commands run in one shell. ``home``: the folder of the user."""

    def __init__(self, home: Path, origin: Path) -> None:
        self.home, self.origin = home, origin
        self.clone = home / "clone"
        # The address in the documents leads to the present files.
        redirected = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": f"url.file://{origin}.insteadOf", "GIT_CONFIG_VALUE_0": REPOSITORY_URL}
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("K8S_AUTH_", "KUBE", "ANSIBLE_", "LAB_", "MAKE"))}
        self.environment = kept | redirected | {"HOME": str(home), "XDG_CACHE_HOME": str(project_cache_dir().parent)}

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-eu", "-o", "pipefail", "-c", script]
        return subprocess.run(
            command, cwd=self.home, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S
        )


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A user with a clone of the present files. At the end the clusters of all clones are taken down."""
    folder = tmp_path_factory.mktemp("reader")
    origin, home = folder / "origin", folder / "home"
    home.mkdir()
    for name in repository_files():
        (origin / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, origin / name, follow_symlinks=False)
    user = Reader(home, origin)
    commit = "git init -q . && git add -A && git -c user.name=reader -c user.email=reader@example.org commit -q -m files"
    _succeed(user.run(f"cd {origin} && {commit} && git clone -q {REPOSITORY_URL} {user.clone} && cd {user.clone} && make env"))
    yield user
    for clone in (user.clone, home / "kube_scheduling"):
        if (clone / ".lab").exists():
            _succeed(user.run(f"cd {clone} && .venv/bin/python -m lab down"))


def test_documents_have_commands_for_the_lab() -> None:
    assert set(DOCUMENTS) >= IN_EACH_TEST_RUN


@pytest.mark.timeout(LIMIT_S + 100)
@pytest.mark.parametrize("document", MARKED)
def test_the_commands_of_a_document_work(reader: Reader, document: Path) -> None:
    of_document = blocks(document)
    commands = [block for block in of_document if block.mark == LAB]

    done = reader.run(script(document, commands))

    assert done.returncode == 0, done.stdout[-6000:]
    outputs = output_by_block(done.stdout, commands)
    for before, block in itertools.pairwise(of_document):
        if block.mark == OUTPUT:
            assert missing_output(block.text, outputs[str(before)]) == [], f"{block}:\n{outputs[str(before)]}"


def script(document: Path, commands: list[Block]) -> str:
    """Return the commands of a document for one shell. Each block begins with a line that names it."""
    parts = []
    needs_cluster = document not in FROM_NOTHING
    if needs_cluster:
        parts.append('cd "$HOME/clone"')
    for block in commands:
        if needs_cluster:
            parts.append(f'pushd "$HOME/clone"{textwrap.dedent(CLUSTER)}popd')
        needs_cluster = bool(DOWN.search(block.script)) and block is not commands[-1]
        parts.append(f"echo '{_line_of(block)}'\n{block.script}")
    return "\n".join(parts)


def output_by_block(output: str, commands: list[Block]) -> dict[str, str]:
    """Return the output of each block."""
    found = {}
    for block in commands:
        _before, line, rest = output.partition(f"{_line_of(block)}\n")
        assert line, f"{block} was not run"
        found[str(block)] = rest.partition("\n== ")[0]
    return found


def _line_of(block: Block) -> str:
    return f"== {block} =="


def _succeed(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout[-4000:]
