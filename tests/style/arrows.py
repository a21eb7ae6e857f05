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
    return found + circles(root)


def circles(root: Path) -> list[str]:
    """One sentence for each import between two parts of one folder if the imported part also imports the other one.

    The parts of a folder are its files and its folders. A part may import another one through further parts. So a folder may import a file
    of the folder above it only if that file does not need the folder.
    """
    imports = list(_imports_between_parts(root))
    targets: dict[str, set[str]] = {}
    for _imported, (part, other) in imports:
        targets.setdefault(part, set()).add(other)
    reached = {part: _reached_from(part, targets) for part in targets}
    found = [
        f"{imported.file}:{imported.line}: {part} must not import {other}, which imports it"
        for imported, (part, other) in imports
        if part in reached.get(other, ())
    ]
    return list(dict.fromkeys(found))  # a statement that imports several names counts once


def _imports_between_parts(root: Path) -> Iterator[tuple[Import, tuple[str, str]]]:
    """Imports from one part of a folder to another part of the same folder, with both parts."""
    for source in SOURCES:
        base, package = root / source, f"{COLLECTION}.{source.replace('/', '.')}"
        for file in sorted(base.rglob("*.py")):
            own = file.relative_to(base).parts
            for imported in imports_of(root, file):
                if _within(imported.module, package):
                    other = _path_of(base, imported.module.removeprefix(package).lstrip(".").split("."))
                    same = next((number for number, (one, two) in enumerate(zip(own, other, strict=False)) if one != two), None)
                    if same is not None:
                        yield imported, ("/".join(own[: same + 1]), "/".join(other[: same + 1]))


def _path_of(base: Path, names: list[str]) -> list[str]:
    """The folders and the file of a module. The last names may be those in the file."""
    count = 0
    while count < len(names) and base.joinpath(*names[: count + 1]).is_dir():
        count += 1
    file = [f"{name}.py" for name in names[count : count + 1]]
    return names[:count] + [name for name in file if base.joinpath(*names[:count], name).is_file()]


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
