# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The imports of the collection's Python files, and those of them that break the rules.

Reads the files without running them, so that an import inside a function or under TYPE_CHECKING counts, too.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.style.sources import tree

COLLECTION = "ansible_collections.onprem.kube_scheduling"
MODULE_UTILS = f"{COLLECTION}.plugins.module_utils"
SOURCES = ("plugins/module_utils", "services")


@dataclass(frozen=True)
class Rules:
    """The rules for imports; files are named by their path below `plugins/module_utils`."""

    arrows: Mapping[str, frozenset[str]]
    """For each folder, the other folders that it may import."""

    pure_folders: frozenset[str]
    """Folders that decide without I/O."""

    impure_modules: frozenset[str]
    """Modules, with all below them, that the pure folders must not import."""

    excepted: Mapping[str, str]
    """Files of the pure folders, and the one of these modules that each may import."""

    third_party: Mapping[str, frozenset[str]]
    """For each package that is not Python's own, with all below it, the files that may import it."""

    circles: Mapping[str, str]
    """Files that may import a folder beside their own although it imports theirs, and that folder."""


@dataclass(frozen=True)
class Import:
    """One imported module, by its full name."""

    file: Path
    line: int
    module: str


def violations(root: Path, rules: Rules) -> list[str]:
    """One sentence for each import below the collection `root` that the rules forbid."""
    found = []
    for source in SOURCES:
        for file in sorted((root / source).rglob("*.py")):
            for imported in imports_of(root, file):
                complaint = _complaint(imported, rules)
                if complaint:
                    found.append(f"{file.relative_to(root)}:{imported.line}: {complaint}")
    return found + circles(root, rules.circles)


def circles(root: Path, excepted: Mapping[str, str]) -> list[str]:
    """One sentence for each import between two folders of one folder of module_utils if the imported folder also imports the other one.

    It may do so through further folders. Files of the folder above are not followed.
    """
    imports = [
        (imported, pair) for imported, pair in _imports_between_folders(root) if excepted.get(_in_module_utils(imported.file)) != pair[1]
    ]
    targets: dict[str, set[str]] = {}
    for _imported, (folder, other) in imports:
        targets.setdefault(folder, set()).add(other)
    found = [
        f"{imported.file}:{imported.line}: {folder} must not import {other}, which imports it"
        for imported, (folder, other) in imports
        if folder in _reached_from(other, targets)
    ]
    return list(dict.fromkeys(found))  # a statement that imports several names counts once


def _imports_between_folders(root: Path) -> Iterator[tuple[Import, tuple[str, str]]]:
    """Imports from one folder to another one of the same folder, with both folders."""
    base = root / SOURCES[0]
    for file in sorted(base.rglob("*.py")):
        own = file.relative_to(base).parent.parts
        for imported in imports_of(root, file):
            if _within(imported.module, MODULE_UTILS):
                other = _folders_in(base, imported.module.removeprefix(MODULE_UTILS).lstrip(".").split("."))
                same = next((number for number, (one, two) in enumerate(zip(own, other, strict=False)) if one != two), None)
                if same is not None:
                    yield imported, ("/".join(own[: same + 1]), "/".join(other[: same + 1]))


def _folders_in(base: Path, parts: list[str]) -> list[str]:
    """The leading parts that are folders."""
    count = 0
    while count < len(parts) and base.joinpath(*parts[: count + 1]).is_dir():
        count += 1
    return parts[:count]


def _reached_from(folder: str, targets: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    rest = [folder]
    while rest:
        new = targets.get(rest.pop(), set()) - reached
        reached |= new
        rest += new
    return reached


@functools.cache
def imports_of(root: Path, file: Path) -> list[Import]:
    """Return every import statement of a file, relative ones resolved."""
    relative = file.relative_to(root)
    return list(_imports(relative, [*COLLECTION.split("."), *relative.parent.parts], tree(file)))


def _imports(relative: Path, package: list[str], module_tree: ast.Module) -> Iterator[Import]:
    for node in ast.walk(module_tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(relative, node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                # `from ..kube import api` imports a module, `from ..kube.api import KubeApi` a name from one: for folders and
                # packages the longer name has the same result.
                yield Import(relative, node.lineno, f"{module}.{alias.name}")


def _complaint(imported: Import, rules: Rules) -> str | None:
    folder = _folder_of(imported.file)
    if folder is not None and folder not in rules.arrows:
        return f"the folder {folder} has no line in the table of arrows: decide what it may import, and add one"
    if _within(imported.module, COLLECTION):
        return _arrow_complaint(imported.module, folder, rules)
    impure = any(_within(imported.module, name) for name in rules.impure_modules)
    if folder in rules.pure_folders and impure and rules.excepted.get(_in_module_utils(imported.file)) != imported.module:
        return f"{folder} only decides, and {imported.module} does I/O: move that to kube or to operations"
    return _third_party_complaint(imported, rules)


def _arrow_complaint(module: str, folder: str | None, rules: Rules) -> str | None:
    if folder is None:
        # The services may import every folder.
        return None
    if not _within(module, MODULE_UTILS):
        return f"module_utils must not import {module}, which imports it"
    target = module.removeprefix(MODULE_UTILS).lstrip(".").split(".")[0]
    if target == folder or target in rules.arrows[folder]:
        return None
    allowed = ", ".join(sorted(rules.arrows[folder])) or "no other folder"
    return f"{folder} must not import {target} (it may import: {allowed})"


def _in_module_utils(file: Path) -> str:
    return file.as_posix().removeprefix("plugins/module_utils/")


def _third_party_complaint(imported: Import, rules: Rules) -> str | None:
    top = imported.module.split(".")[0]
    if top in sys.stdlib_module_names:
        return None
    file = _in_module_utils(imported.file)
    for package, files in rules.third_party.items():
        if _within(imported.module, package):
            allowed = ", ".join(sorted(files))
            return None if file in files else f"only {allowed} may import {package}"
    if _folder_of(imported.file) is None:
        return None
    return f"{top} is a third-party package without a line in the table: one file wraps it, and has stand-ins for when it is missing"


def _folder_of(file: Path) -> str | None:
    """The folder below module_utils; None for the services."""
    parts = file.parts
    return parts[2] if parts[:2] == ("plugins", "module_utils") else None


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(f"{package}.")
