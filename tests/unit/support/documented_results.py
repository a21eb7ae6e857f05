# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The RETURN blocks of the modules, and the comparison of results with them."""

from __future__ import annotations

import ast
import functools
import typing as t
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml

MODULES = Path(__file__).parents[3] / "plugins" / "modules"
TYPES: dict[str, t.Any] = {"str": str, "int": int, "bool": (bool, type(None)), "list": list, "dict": dict}
OF_ANSIBLE = {"changed", "failed", "msg", "warnings", "deprecations", "exception", "invocation", "diff"}
"""Keys that every module may return."""


@functools.cache
def documentation(module: str, name: str) -> dict[str, t.Any]:
    """Return the YAML text that the module assigns to ``name``, such as RETURN."""
    path = MODULES / f"{module}.py"
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == name:
            found: dict[str, t.Any] = yaml.safe_load(ast.literal_eval(statement.value))
            return found
    raise AssertionError(f"{path.name} has no {name}")


def mismatches(where: str, fields: Mapping[str, t.Any], values: Mapping[str, t.Any]) -> Iterator[str]:
    """Return the differences between values and their documentation: in keys and types, and a code or a message without the other."""
    yield from (f"{where}.{key} is not documented" for key in values if key not in fields)
    if bool(values.get("reason")) != bool(values.get("message")):
        yield f"{where}: reason {values.get('reason')!r} with the message {values.get('message')!r}"
    for key, value in values.items():
        field = fields.get(key, {})
        if field and not isinstance(value, TYPES[field["type"]]):
            yield f"{where}.{key} is no {field['type']}: {value!r}"
        elif "contains" in field:
            for entry in value if isinstance(value, list) else [value]:
                yield from mismatches(f"{where}.{key}", field["contains"], entry)
                yield from (f"{where}.{key}.{name} is missing" for name in field["contains"] if name not in entry)


def differences(module: str, result: Mapping[str, t.Any]) -> list[str]:
    """Return the differences between a result of the module and its RETURN block."""
    own = {key: value for key, value in result.items() if key not in OF_ANSIBLE}
    return list(mismatches(module, documentation(module, "RETURN"), own))
