# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Find quantities that cannot be parsed, so that no later code has to handle them."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator
from functools import cache

from ..codec import Struct, fields_of
from .quantity import parse_quantity

QUANTITY_FIELDS = frozenset(
    (
        *("requests", "limits", "overhead", "allocated_resources", "allocatable", "capacity", "maximum_volume_size"),
        *("hard", "used", "default", "default_request", "max", "min", "max_limit_request_ratio"),
    )
)
"""The fields that contain a quantity or a map of quantities."""


def check_quantities(value: t.Any) -> None:
    """Raise QuantityError for the first quantity of a struct, or of a tuple of structs, that cannot be parsed."""
    if isinstance(value, tuple):
        for entry in value:
            check_quantities(entry)
    elif isinstance(value, Struct):
        for name in _fields_with_quantities(type(value)):
            part = getattr(value, name)
            if part:
                check_quantity_field(name, part)


def check_quantity_field(name: str, value: t.Any) -> None:
    """Raise QuantityError if a quantity in the value of the named field cannot be parsed."""
    if not isinstance(value, (dict, str)):
        check_quantities(value)
    elif name in QUANTITY_FIELDS:
        for text in value.values() if isinstance(value, dict) else (value,):
            parse_quantity(text)


@cache
def _fields_with_quantities(kind: t.Any) -> tuple[str, ...]:
    """Return the fields of a struct that contain quantities at any depth."""
    return tuple(
        entry.name for entry in fields_of(kind) if entry.name in QUANTITY_FIELDS or any(map(_fields_with_quantities, _structs(entry.type)))
    )


def _structs(annotation: t.Any) -> Iterator[t.Any]:
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        yield annotation
    for argument in t.get_args(annotation):
        yield from _structs(argument)
