# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The workloads that the arguments name, in the forms of ``kubectl get``: KIND, KIND NAME..., and KIND/NAME..."""

from __future__ import annotations

import typing as t
from collections.abc import Sequence

from ...plugins.module_utils.model.snapshot import ClusterSnapshot
from ...plugins.module_utils.model.values.nearest import nearest
from ...plugins.module_utils.spread.options import CheckOptions
from .flags import KIND_WORDS, UsageError

API_GROUPS = (".v1.apps", ".apps")
"""The ends of a kind that name its API group and version."""


class NamedWorkloads(t.NamedTuple):
    """The kinds that are checked, and the workloads as pairs of kind and name. Without names, all workloads of the kinds are checked."""

    kinds: tuple[str, ...]
    names: tuple[tuple[str, str], ...]


def named_workloads(arguments: Sequence[str]) -> NamedWorkloads:
    """Return what the arguments name. Raises UsageError."""
    with_slash = ["/" in argument for argument in arguments]
    if not arguments:
        return NamedWorkloads((), ())
    if any(with_slash):
        if not all(with_slash):
            other = arguments[with_slash.index(False)]
            raise UsageError(f"{other!r} is not KIND/NAME, which the other arguments are; write {other!r} in the same form")
        pairs = [_pair(argument) for argument in arguments]
    else:
        pairs = [(kind, name) for name in arguments[1:] for kind in _kinds(arguments[0])]
        if not pairs:
            return NamedWorkloads(_kinds(arguments[0]), ())
    if not all(name for _kind, name in pairs):
        raise UsageError("a name is empty; write KIND NAME or KIND/NAME")
    return NamedWorkloads(tuple(dict.fromkeys(kind for kind, _name in pairs)), tuple(dict.fromkeys(pairs)))


def kind_of(word: str) -> str:
    """Return the kind that a word names. Raises UsageError."""
    plain = word.lower()
    for end in API_GROUPS:
        plain = plain.removesuffix(end)
    for kind, words in KIND_WORDS.items():
        if plain in words:
            return kind
    known = [name for words in KIND_WORDS.values() for name in words]
    raise UsageError(f"{word!r} is not a kind that is checked{nearest(plain, known)}; use one of {', '.join(KIND_WORDS)}")


def missing_workloads(snapshot: ClusterSnapshot, options: CheckOptions, names: Sequence[tuple[str, str]]) -> list[str]:
    """Return a text for each of the names that no workload in the namespaces of the options has."""
    if not names:
        return []
    places = set(options.namespaces or snapshot.namespaces)
    listed = [(one.kind, one.metadata.namespace, one.metadata.name) for one in snapshot.workloads(options.kinds)]
    listed += [(one.kind, one.metadata.namespace, one.metadata.name) for one in snapshot.undecodable if one.kind in options.kinds]
    existing = {(kind, name) for kind, place, name in listed if place in places}
    where = ", ".join(options.namespaces or ())
    return [
        f"there is no {kind} {name} in {where}{nearest(name, sorted(other for of, other in existing if of == kind))}"
        for kind, name in names
        if (kind, name) not in existing
    ]


def _pair(argument: str) -> tuple[str, str]:
    kind, _slash, name = argument.partition("/")
    if not kind or not name or "/" in name:
        raise UsageError(f"{argument!r} is not KIND/NAME, such as deploy/web")
    return kind_of(kind), name


def _kinds(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(kind_of(word.strip()) for word in text.split(",")))
