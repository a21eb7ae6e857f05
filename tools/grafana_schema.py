# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Checks dashboards with the types that Grafana publishes for them: the npm package @grafana/schema, and the compiler of TypeScript."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools import npm

SCHEMA = npm.Package("@grafana/schema", "13.2.3", "f492f0ec5b0212cbf7f098d5d54b4a540371c262c6b78e9016ee2d26add9e559")
COMPILER = npm.Package("typescript", "5.9.3", "10e108c9cf7d5f2879053dff18515fb405abf2ccef63eaaf017d9c571687a1d3")
DASHBOARD = "raw/dashboard/x/types.gen"
PANEL = "raw/composable/{}/panelcfg/x/types.gen"
ENUM = re.compile(r"^export declare enum (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
VALUE = re.compile(r"^ +\w+ = (.+?),?$", re.MULTILINE)
FIELD_CONFIG = re.compile(r"^export interface FieldConfig\b", re.MULTILINE)
SETTINGS = {
    "compilerOptions": {
        "strict": True,
        "noEmit": True,
        "types": [],
        "target": "es2022",
        "module": "esnext",
        "moduleResolution": "bundler",
        "skipLibCheck": True,
        "paths": {"@grafana/schema": ["./types/index"]},
    },
    "files": ["check.ts"],
}


def violations(dashboards: Mapping[str, dict[str, Any]]) -> list[str]:
    """Return what the compiler says about dashboards, which are given by their names, such as an unknown or a missing field.

    The options of a panel, and the custom part of its field configuration, are checked with the types of its plugin. Raises ToolError.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        _write_types(npm.ensure(SCHEMA, "grafana-schema") / "dist" / "types", folder / "types")
        lines = _lines(dashboards, folder / "types")
        (folder / "check.ts").write_text("\n".join(text for _place, text in lines))
        (folder / "tsconfig.json").write_text(json.dumps(SETTINGS))
        compiler = npm.ensure(COMPILER, "typescript") / "lib" / "tsc.js"
        command = ["node", str(compiler), "--pretty", "false", "--project", str(folder)]
        environment = os.environ | {"PATH": npm.path_with_npm()}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    found = re.findall(r"^check\.ts\((\d+),\d+\): error (.+)$", done.stdout, re.MULTILINE)
    if bool(found) != (done.returncode != 0):
        return [done.stdout + done.stderr]
    return [f"{lines[int(number) - 1][0]}: {message}" for number, message in found]


def _write_types(source: Path, folder: Path) -> None:
    """Copy the types. Enumerations become unions of their values, because a JSON file has only the values."""
    shutil.copytree(source, folder)
    for file in folder.rglob("*.d.ts"):
        text = file.read_text(encoding="utf-8")
        file.write_text(ENUM.sub(lambda enum: f"export type {enum[1]} = {' | '.join(VALUE.findall(enum[2]))};", text), encoding="utf-8")


def _lines(dashboards: Mapping[str, dict[str, Any]], types: Path) -> list[tuple[str, str]]:
    """Return the lines of the program, each with the place in a dashboard that it checks."""
    panels = [
        (f"{name}: {panel['title']}", panel)
        for name, dashboard in dashboards.items()
        for panel in dashboard["panels"]
        if panel["type"] != "row"
    ]
    kinds = sorted({panel["type"] for _place, panel in panels})
    lines = [("", f'import type * as dashboard from "./types/{DASHBOARD}";')]
    lines += [("", f'import type * as {kind} from "./types/{PANEL.format(kind)}";') for kind in kinds]
    custom = {kind: _type_of_custom(kind, types) for kind in kinds}
    checks = [(name, "dashboard.Dashboard", whole) for name, whole in dashboards.items()]
    for place, panel in panels:
        checks.append((place, f"{panel['type']}.Options", panel["options"]))
        checks.append((place, custom[panel["type"]], panel["fieldConfig"]["defaults"].get("custom", {})))
    lines += [(place, f"export const v{number}: {kind} = {json.dumps(value)};") for number, (place, kind, value) in enumerate(checks)]
    return lines


def _type_of_custom(kind: str, types: Path) -> str:
    has_fields = FIELD_CONFIG.search((types / f"{PANEL.format(kind)}.d.ts").read_text(encoding="utf-8"))
    return f"Partial<{kind}.FieldConfig>" if has_fields else "Record<string, never>"
