# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The objects of an apply set as files: one for each template, and a kustomization.yaml that lists the files of all sets in the folder.

Files without the mark are those of others. They are neither replaced nor removed.
"""

from __future__ import annotations

import typing as t
from collections.abc import Mapping, Sequence
from pathlib import Path

from .objects import Json
from .options import NAMESPACE_PART, ApplySetError

MARK = "# Rendered by the collection onprem.kube_scheduling. The next run replaces this file."
"""The first line of each rendered file."""
KUSTOMIZATION = "kustomization.yaml"


def render(
    folder: Path, component: str, parts: Mapping[str, Sequence[Json]], dump: t.Callable[[t.Any], str], *, check_mode: bool
) -> list[Json]:
    """Write the files that differ, remove those of the program that are not rendered any more, and return the differences.

    Raises ApplySetError before anything is written if a file of others has one of the names, and OSError.
    """
    before = {file.name: _text(file) for file in folder.glob("*.yaml")} if folder.is_dir() else {}
    own = {name: text for name, text in before.items() if text is not None and text.startswith(MARK)}
    wanted = {_file_name(component, part): f"{MARK}\n---\n{dump(_document(items))}" for part, items in parts.items()}
    taken = sorted((before.keys() - own.keys()) & {*wanted, KUSTOMIZATION})
    if taken:
        raise ApplySetError(
            f"Nothing was written. The folder {folder} has files that were not rendered by this collection: {', '.join(taken)}. "
            "Move or rename them, or render to another folder"
        )
    # Also those of another form of the same program.
    family = f"{component.partition('-')[0]}-"
    removed = {name for name in own if name.startswith(family)} - wanted.keys()
    names = sorted((own.keys() | wanted.keys()) - removed - {KUSTOMIZATION})
    lines = "".join(f"- {name}\n" for name in names)
    wanted[KUSTOMIZATION] = f"{MARK}\n---\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n{lines}"
    changes = [(name, own.get(name), wanted.get(name)) for name in [*sorted(removed), *wanted] if own.get(name) != wanted.get(name)]
    if not check_mode:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        for name, _old, new in changes:
            _write(folder / name, new)
    headers = ((str(folder / name), old or "", new or "") for name, old, new in changes)
    return [{"before_header": name, "after_header": name, "before": old, "after": new} for name, old, new in headers]


def _file_name(component: str, part: str) -> str:
    name = part.replace("_", "-")
    return f"{name}.yaml" if part == NAMESPACE_PART else f"{component}-{name}.yaml"


def _document(items: Sequence[Json]) -> Json:
    # One document, because tools for YAML such as yamllint refuse files with several.
    return items[0] if len(items) == 1 else {"apiVersion": "v1", "kind": "List", "items": list(items)}


def _text(file: Path) -> t.Optional[str]:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None  # none of ours


def _write(file: Path, text: t.Optional[str]) -> None:
    if text is None:
        file.unlink()
        return
    file.write_text(text, encoding="utf-8")
    file.chmod(0o644)
