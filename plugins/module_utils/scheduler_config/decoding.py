# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The types of all fields, as kube-scheduler's strict decoder checks them (``pkg/scheduler/apis/config/scheme``)."""

from __future__ import annotations

import base64
import binascii
import typing as t
from collections.abc import Iterator, Mapping

from ..model.values.nearest import nearest
from ..model.values.shown import shown_key, shown_value
from .plugin_tables import FIELDS, OLDEST
from .problem import UNKNOWN_FIELD, Problem
from .values import duration_ns, list_of, mapping_of, text_of
from .versions import ConfigTarget, full_name

_INTEGERS = {"int32": 2**31, "int64": 2**63}
_LARGEST_FLOAT = 3.4028235677973366e38
_WORDS = {"string": "a text", "bool": "true or false", "float32": "a number"}

LATER_FIELDS = {
    ("Plugins", "multiPoint"): ("v1beta2", 23),
    ("Plugins", "preEnqueue"): ("v1beta2", 26),
    ("KubeSchedulerProfile", "percentageOfNodesToScore"): ("v1", 26),
    ("KubeSchedulerConfiguration", "delayCacheUntilActive"): ("v1", 28),
}
"""Fields that were added, with the oldest API version and the oldest minor version of Kubernetes that have each."""
EARLIER_FIELDS = {"KubeSchedulerConfiguration": {"healthzBindAddress": "string", "metricsBindAddress": "string"}}
"""Fields that v1beta3 does not have any more."""


def type_problems(config: t.Any, target: ConfigTarget) -> Iterator[Problem]:
    """Yield the values of a wrong type and the unknown fields of a configuration."""
    yield from struct_problems("KubeSchedulerConfiguration", config, "", target)


def struct_problems(name: str, value: t.Any, path: str, target: ConfigTarget) -> Iterator[Problem]:
    """Yield the problems of a mapping that is decoded into the struct of this name."""
    if value is None:
        return
    if not isinstance(value, Mapping):
        yield Problem(path or "the file", f"it is {shown_value(value)}, and a mapping is expected", "write its fields below it")
        return
    fields = _fields_of(name, target)
    for key, child in value.items():
        place = f"{path}.{shown_key(key)}" if path else shown_key(key)
        kind = fields.get(key) if isinstance(key, str) else None
        if kind is None:
            remedy = f"remove it, or correct its spelling{nearest(str(key), fields)}"
            yield Problem(place, "kube-scheduler refuses a field that it does not know", remedy, UNKNOWN_FIELD)
        else:
            yield from _value_problems(kind, child, place, target)
    if name == "PluginConfig":
        yield from _args_problems(value, path, target)


def has_field(struct: str, key: str, target: ConfigTarget) -> bool:
    """Return whether the target version has a field."""
    return key in _fields_of(struct, target)


def args_struct(plugin: t.Any, target: ConfigTarget) -> t.Optional[str]:
    """Return the struct of the arguments of a plugin. None for a plugin without one, as out-of-tree plugins are."""
    name = f"{plugin}Args"
    return name if name in FIELDS and _fields_of(name, target) else None


def _fields_of(struct: str, target: ConfigTarget) -> dict[str, str]:
    fields = {key: kind for key, (kind, span) in FIELDS[struct].items() if _applies(struct, key, span, target)}
    return fields if target.is_since("v1beta3") else {**fields, **EARLIER_FIELDS.get(struct, {})}


def _applies(struct: str, key: str, span: tuple[int, int], target: ConfigTarget) -> bool:
    api_version, minor = LATER_FIELDS.get((struct, key), ("v1beta2", 0))
    if not target.is_since(api_version) or (target.minor is not None and target.minor < minor):
        return False
    return target.has(span) if target.has_tables else span[0] == OLDEST


def _value_problems(kind: str, value: t.Any, path: str, target: ConfigTarget) -> Iterator[Problem]:
    if kind in FIELDS:
        yield from struct_problems(kind, value, path, target)
    elif kind.startswith("[]"):
        yield from _list_problems(kind[2:], value, path, target)
    elif kind == "map[string]string":
        yield from _map_problems(value, path, target)
    else:
        yield from _plain_problems(kind, value, path)


def _list_problems(kind: str, value: t.Any, path: str, target: ConfigTarget) -> Iterator[Problem]:
    if value is None:
        return
    if not isinstance(value, list):
        yield Problem(path, f"it is {shown_value(value)}, and a list is expected", "begin each entry with a dash")
        return
    for number, entry in enumerate(value):
        yield from _value_problems(kind, entry, f"{path}[{number}]", target)


def _map_problems(value: t.Any, path: str, target: ConfigTarget) -> Iterator[Problem]:
    if value is not None and not isinstance(value, Mapping):
        yield Problem(path, f"it is {shown_value(value)}, and a mapping is expected", "write its keys below it")
    for key, child in mapping_of(value).items():
        yield from _value_problems("string", child, f"{path}.{shown_key(key)}", target)


def _plain_problems(kind: str, value: t.Any, path: str) -> Iterator[Problem]:
    if kind.endswith("Duration"):
        if (value is not None or kind == "Duration") and duration_ns(value) is None:
            yield Problem(path, f"{shown_value(value)} is not a duration", "write a text such as 200ms, 15s or 1m30s")
    elif value is None or kind == "raw":
        return
    elif kind == "bytes":
        if not _is_base64(value):
            # The value may be a private key.
            yield Problem(path, "it is not base64", "encode the data in base64")
    elif kind in _INTEGERS:
        yield from _integer_problems(_INTEGERS[kind], value, path)
    elif not _has_type(kind, value):
        remedy = "put it into quotes" if kind == "string" and not isinstance(value, (Mapping, list)) else f"write {_WORDS[kind]}"
        yield Problem(path, f"{shown_value(value)} is not {_WORDS[kind]}", remedy)


def _integer_problems(limit: int, value: t.Any, path: str) -> Iterator[Problem]:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole:
        yield Problem(path, f"{shown_value(value)} is not a whole number", "write a number without quotes")
    elif not -limit <= value < limit:
        yield Problem(path, f"{shown_value(value)} is too large", f"write a number below {limit}")


def _has_type(kind: str, value: t.Any) -> bool:
    if kind == "float32":
        return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _LARGEST_FLOAT
    return isinstance(value, {"string": str, "bool": bool}[kind])


def _is_base64(value: t.Any) -> bool:
    try:
        base64.b64decode(value.replace("\n", "").replace("\r", ""), validate=True)
    except (AttributeError, ValueError, binascii.Error):
        return False
    return True


def _args_problems(entry: Mapping[str, t.Any], path: str, target: ConfigTarget) -> Iterator[Problem]:
    """Yield the problems of the arguments of an in-tree plugin, which are decoded into a struct of their own."""
    name, args = text_of(entry.get("name")), entry.get("args")
    struct = args_struct(name, target)
    if struct is None or args is None:
        return
    path = f"{path}.args"
    if not isinstance(args, Mapping):
        yield Problem(path, f"it is {shown_value(args)}, and the plugin {name} needs a mapping", "write the arguments, or remove it")
        return
    for key, wanted in (("kind", struct), ("apiVersion", full_name(target.api_version))):
        if args.get(key) not in (None, "", wanted):
            yield Problem(f"{path}.{key}", f"{shown_value(args[key])} is not {wanted}", f"write {wanted}, or remove the field")
    yield from struct_problems(struct, args, path, target)


def checked_lists(config: Mapping[str, t.Any]) -> tuple[list[Mapping[str, t.Any]], list[Mapping[str, t.Any]]]:
    """Return the profiles and the extenders of a configuration, with an empty mapping in place of a null entry."""
    return [mapping_of(one) for one in list_of(config.get("profiles"))], [mapping_of(one) for one in list_of(config.get("extenders"))]
