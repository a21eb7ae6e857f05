# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules run from an archive of their sources, as Ansible packs them, and Python compiles each source once."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from tests.style.arrows import COLLECTION, MODULE_UTILS
from tools.paths import COLLECTIONS

OPTIONS_OF_KUBERNETES_CORE = "ansible_collections/kubernetes/core/plugins/module_utils/args_common.py"

COUNTING = """
import sys
compiled = []
sys.addaudithook(lambda event, details: compiled.append(details[1]) if event == "compile" else None)
import {module}
print(*(name for name in compiled if isinstance(name, str)), sep="\\n")
"""


def packed(folder: Path) -> Path:
    """An archive with the modules and their sources; each folder has an empty ``__init__.py``, which is how Ansible packs them."""
    plugins = COLLECTIONS / COLLECTION.replace(".", "/") / "plugins"
    files = [*plugins.glob("module_utils/**/*.py"), *plugins.glob("modules/*.py"), COLLECTIONS / OPTIONS_OF_KUBERNETES_CORE]
    names = [file.relative_to(COLLECTIONS) for file in files]
    archive = folder / "payload.zip"
    with zipfile.ZipFile(archive, "w") as packing:
        for parent in sorted({parent for name in names for parent in name.parents} - {Path()}):
            packing.writestr(f"{parent}/__init__.py", "")
        for file, name in zip(files, names, strict=True):
            packing.write(file, name)
    return archive


def compiled_by(program: str, archive: Path) -> Counter[str]:
    """Return how often a program compiles each source of the archive, by the source's path in it."""
    answer = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": str(archive)}, capture_output=True, text=True, check=True)
    inside = f"{archive}/"
    return Counter(line.removeprefix(inside) for line in answer.stdout.splitlines() if line.startswith(inside))


@pytest.mark.parametrize("module", ["k8s_spread_check", "k8s_rollout_restart", "k8s_critical_rescue"])
def test_a_packed_module_compiles_each_of_its_sources_once(module: str, tmp_path: Path) -> None:
    name = f"{COLLECTION}.plugins.modules.{module}"
    compiled = compiled_by(COUNTING.format(module=name), packed(tmp_path))
    before = {name, f"{MODULE_UTILS}.kube.packed_sources"}
    sources = {path: times for path, times in compiled.items() if not path.endswith("__init__.py")}
    again = {path for path, times in sources.items() if times > 1}
    assert again <= {f"{one.replace('.', '/')}.py" for one in before}
    assert len(sources) > 40


def test_a_source_that_the_archive_does_not_have_is_not_found(tmp_path: Path) -> None:
    program = f"""
from {MODULE_UTILS}.kube.packed_sources import compile_once
compile_once()
compile_once()
try:
    import {MODULE_UTILS}.kube.missing
except ModuleNotFoundError as error:
    print(error)
import {MODULE_UTILS}.kube.client.early_denials as found
print(found.__file__, found.__spec__.origin, type(found.__loader__).__name__)
"""
    archive = packed(tmp_path)
    answer = subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": str(archive)}, capture_output=True, text=True, check=True)
    path = f"{archive}/{MODULE_UTILS.replace('.', '/')}/kube/client/early_denials.py"
    assert answer.stdout.splitlines() == [f"No module named '{MODULE_UTILS}.kube.missing'", f"{path} {path} _CompilesOnce"]


def test_sources_that_are_not_in_an_archive_are_imported_as_before() -> None:
    program = f"""
import sys
before = [*sys.path_hooks]
from {MODULE_UTILS}.kube.packed_sources import compile_once
compile_once()
print(before == sys.path_hooks)
"""
    answer = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(COLLECTIONS)}, capture_output=True, text=True, check=True
    )
    assert answer.stdout.split() == ["True"]
