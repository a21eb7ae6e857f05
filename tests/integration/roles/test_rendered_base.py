# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The base for kustomize in deploy/ is what the roles render."""

from __future__ import annotations

from pathlib import Path

from tools.rendered_base import BASE, render


def test_the_base_in_the_repository_is_what_the_roles_render(tmp_path: Path) -> None:
    render(tmp_path)
    rendered, kept = ({file.name: file.read_text() for file in folder.glob("*.yaml")} for folder in (tmp_path, BASE))
    assert rendered == kept, "run `make deploy`"
