# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The files of an apply set: written, repeated, removed, and refused beside those of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config import go_yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.cluster import ObjectsError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.apply_set.files import MARK, render

Json = dict[str, Any]

OBJECTS = [{"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}} for kind in "AB"]
PARTS: dict[str, list[Json]] = {"network_policy": OBJECTS, "monitor": [{**OBJECTS[0], "kind": "Monitor"}]}


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


def run(folder: Path, component: str = "rescuer", *, check_mode: bool = False, **parts: list[Json]) -> list[Json]:
    given = {"name": "x", "component": component, "namespace": "shop", "create_namespace": True, "permissions": None, "user": ""}
    given |= {"objects": parts or PARTS, "optional_kinds": ["v1/Monitor"], "render_to": str(folder)}
    return render(given, check_mode=check_mode)


def test_files_are_written_once_and_those_of_another_form_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert len(run(folder)) == 3 and run(folder) == []
    assert names(folder) == {"namespace.yaml", "rescuer-network-policy.yaml", "kustomization.yaml"}
    text = (folder / "rescuer-network-policy.yaml").read_text()
    assert text.startswith(f"{MARK}\n---\n") and "kind: List" in text
    changed = run(folder, "rescuer-static", permissions=OBJECTS[:1])
    assert names(folder) == {"namespace.yaml", "rescuer-static-permissions.yaml", "kustomization.yaml"}
    assert [(Path(one["before_header"]).name, bool(one["before"]), bool(one["after"])) for one in changed] == [
        ("rescuer-network-policy.yaml", True, False),
        ("rescuer-static-permissions.yaml", False, True),
        ("kustomization.yaml", True, True),
    ]
    assert (folder / "kustomization.yaml").read_text().endswith("resources:\n- namespace.yaml\n- rescuer-static-permissions.yaml\n")


@pytest.mark.parametrize(
    "text", ["1e3", "-1.5E3", "0o17", "0b1", "1_000", "1:30", "y", "NO", "~", "NaN", ".inf", "2026-01-01", "0x1F", "08"]
)
def test_a_text_like_a_number_or_a_boolean_is_in_quotes(text: str, tmp_path: Path) -> None:
    run(tmp_path, a=[{**OBJECTS[0], "data": {"x": text}}])
    written = (tmp_path / "rescuer-a.yaml").read_text()
    assert go_yaml.compose(written.partition("---\n")[2])[1]["data"] == {"x": text}


def test_equal_parts_are_written_again_and_not_as_aliases(tmp_path: Path) -> None:
    labels = {"a": "b"}
    run(tmp_path, a=[{**OBJECTS[0], "data": [labels, labels]}])
    assert "*" not in (tmp_path / "rescuer-a.yaml").read_text()


@pytest.mark.parametrize("taken", ["namespace.yaml", "kustomization.yaml"])
@pytest.mark.parametrize("content", [b"kind: Namespace\n", f"# user\n{MARK}\n".encode(), b"\xff"])
def test_a_file_of_others_is_refused_before_anything_is_written(taken: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / taken).write_bytes(content)
    with pytest.raises(ObjectsError, match=f"not rendered by this collection: {taken}. "):
        run(tmp_path)
    assert names(tmp_path) == {taken} and (tmp_path / taken).read_bytes() == content


def test_check_mode_writes_nothing(tmp_path: Path) -> None:
    assert len(run(tmp_path / "new", check_mode=True)) == 3 and not (tmp_path / "new").exists()
