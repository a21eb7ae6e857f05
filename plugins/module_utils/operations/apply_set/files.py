# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The objects of an apply set as files: one for each template, and a kustomization.yaml that lists the files of all sets in the folder.

Files without the mark are those of others. They are neither replaced nor removed.
"""

from __future__ import annotations

from pathlib import Path

from ...kube.client.config import go_yaml
from .apply_set import NAMESPACE_PART, parts_of
from .cluster import ObjectsError
from .objects import Json, difference, kind_of

MARK = "# Rendered by the collection onprem.kube_scheduling. The next run replaces this file."
"""The first line of each rendered file."""
KUSTOMIZATION = "kustomization.yaml"


def render(given: Json, *, check_mode: bool) -> list[Json]:
    """Write the files that differ, remove those of the program that are not rendered any more, and return the differences.

    ``given`` are the options of the module k8s_apply_set. Raises ObjectsError before anything is written if a file of others has one of
    the names, and OSError.
    """
    folder, component = Path(given["render_to"]).resolve(), given["component"]
    before = {file.name: file.read_text(encoding="utf-8", errors="replace") for file in folder.glob("*.yaml")}
    own = {name: text for name, text in before.items() if text.startswith(MARK)}
    wanted = {}
    for part, objects in parts_of(given).items():
        name, items = part.replace("_", "-"), [item for item in objects if kind_of(item) not in given["optional_kinds"]]
        if not items:
            continue
        # One document, because tools for YAML such as yamllint refuse files with several.
        document = items[0] if len(items) == 1 else {"apiVersion": "v1", "kind": "List", "items": items}
        wanted[f"{name}.yaml" if part == NAMESPACE_PART else f"{component}-{name}.yaml"] = f"{MARK}\n---\n{go_yaml.dump(document)}"
    taken = sorted((before.keys() - own.keys()) & {*wanted, KUSTOMIZATION})
    if taken:
        raise ObjectsError(
            f"Nothing was written. The folder {folder} has files that were not rendered by this collection: {', '.join(taken)}. "
            "Move or rename them, or render to another folder"
        )
    # Also those of another form of the same program.
    family = f"{component.partition('-')[0]}-"
    removed = sorted(name for name in own if name.startswith(family) and name not in wanted)
    names = sorted({*own, *wanted} - {*removed, KUSTOMIZATION})
    lines = "".join(f"- {name}\n" for name in names)
    wanted[KUSTOMIZATION] = f"{MARK}\n---\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n{lines}"
    changes = [name for name in [*removed, *wanted] if own.get(name) != wanted.get(name)]
    if not check_mode:
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    for file in (folder / name for name in changes if not check_mode):
        if file.name in removed:
            file.unlink()
        else:
            file.write_text(wanted[file.name], encoding="utf-8")
            file.chmod(0o644)
    return [difference(str(folder / name), own.get(name, ""), wanted.get(name, "")) for name in changes]
