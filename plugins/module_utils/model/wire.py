# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Bytes from the API server to typed structs, once.

The only file that imports msgspec. Where msgspec is missing (documentation builds, sanity tests on old interpreters)
stand-ins keep the structs importable, and a module reports ``MSGSPEC_IMPORT_ERROR`` before it uses them.
"""

from __future__ import annotations

import re
import threading
import typing as t

if t.TYPE_CHECKING:
    from msgspec import DecodeError as MsgspecDecodeError
    from msgspec import Raw, Struct, ValidationError, field
    from msgspec.structs import force_setattr, replace

    MSGSPEC_IMPORT_ERROR: t.Optional[str] = None
else:
    import traceback

    MSGSPEC_IMPORT_ERROR = None
    try:
        from msgspec import DecodeError as MsgspecDecodeError
        from msgspec import Raw, Struct, ValidationError, field
        from msgspec.structs import force_setattr, replace
    except ImportError:
        MSGSPEC_IMPORT_ERROR = traceback.format_exc()

        class Struct:
            """Stand-in that swallows msgspec's class options."""

            def __init_subclass__(cls, **options):
                super().__init_subclass__()

        class Raw(bytes):
            """Stand-in for an undecoded part of a message."""

        class ValidationError(ValueError):
            """Stand-in for msgspec's error."""

        class MsgspecDecodeError(ValueError):
            """Stand-in for msgspec's error."""

        def field(**options):
            """Stand-in for msgspec's field declaration."""
            return None

        def force_setattr(struct, name, value):
            """Stand-in for msgspec's write to a frozen struct."""
            setattr(struct, name, value)

        def replace(struct, **changes):
            """Stand-in for msgspec's copy with changes."""
            raise RuntimeError("the Python library msgspec is missing")


__all__ = [
    "MSGSPEC_IMPORT_ERROR",
    "ListMeta",
    "Raw",
    "Struct",
    "WatchEvent",
    "WireError",
    "decode_items",
    "decode_json",
    "encode_json",
    "field",
    "force_setattr",
    "list_meta",
    "replace",
]

T = t.TypeVar("T")


class WatchEvent(Struct, frozen=True):
    """One line of a watch; ``object`` stays bytes for whoever knows its kind."""

    type: str
    object: Raw


class ListMeta(Struct, rename={"continue_": "continue", "resource_version": "resourceVersion"}, frozen=True):
    """How a paged list goes on, empty at its end, and the state of the cluster that it shows."""

    continue_: str = ""
    resource_version: str = ""


class ListHead(Struct, frozen=True):
    """A page of a list without its items."""

    metadata: ListMeta = ListMeta()


_making = threading.Lock()
_decoders: dict[t.Any, t.Any] = {}
_list_types: dict[t.Any, t.Any] = {}
_encoder: t.Any = None


class WireError(ValueError):
    """The bytes are not what the type says; the text names the type and the place in the message."""


def decode_json(kind: type[T], data: bytes | str) -> T:
    """Decode one JSON message into ``kind``; raises WireError that says what did not fit and where."""
    decoder = _decoders.get(kind) or _made_decoder(kind)
    try:
        return t.cast(T, decoder.decode(data))
    except (ValidationError, MsgspecDecodeError, UnicodeDecodeError) as error:
        name = getattr(kind, "__name__", str(kind))
        raise WireError(f"cannot read the answer as {name}: {error}") from error


def decode_items(item: type[T], data: bytes) -> list[T]:
    """The items of one page of a JSON list."""
    page: t.Any = decode_json(_list_types.get(item) or _made_list_type(item), data)
    return page.items or []


def _made_decoder(kind: type[t.Any]) -> t.Any:
    """A decoder made on first use, because msgspec may be absent when this file is imported."""
    import msgspec

    # One at a time: what msgspec works out about a type it keeps on the type before it is whole, and a decoder that another thread makes
    # in between of a type that has this one as a part ends the process by a segmentation fault.
    with _making:
        if kind not in _decoders:
            _decoders[kind] = msgspec.json.Decoder(kind)
        return _decoders[kind]


def _made_list_type(item: type[t.Any]) -> t.Any:
    import msgspec

    # For mypy a value is no type, and here the type of the items is one.
    fields = [("items", t.Optional[list[item]], None)]  # type: ignore[valid-type]
    with _making:
        if item not in _list_types:
            _list_types[item] = msgspec.defstruct(f"{item.__name__}List", fields, frozen=True)
        return _list_types[item]


# An API server writes the lists of its built-in types so that the token stands before the items, and those need not be scanned for it.
_LIST_START = re.compile(rb'\{"kind":"\w+","apiVersion":"[\w./]+","metadata":(\{[^{}]*\}),"items":')


def list_start(data: bytes) -> t.Optional[ListMeta]:
    """``list_meta`` of a page of which only the first bytes are there; None where these do not tell."""
    start = _LIST_START.match(data)
    return decode_json(ListMeta, start[1]) if start is not None else None


def list_meta(data: bytes) -> ListMeta:
    """What a page of a list says of the list: the token for the page after this one, and the resource version."""
    return list_start(data) or decode_json(ListHead, data).metadata


def resource_version_of(data: bytes) -> str:
    """The state of the cluster that a bookmark stands for. Nothing else of it can be read: a pod's has null where the containers belong."""
    return decode_json(ListHead, data).metadata.resource_version


def encode_json(value: t.Any) -> bytes:
    """JSON bytes of structs and plain values; equal values give equal bytes."""
    global _encoder
    if _encoder is None:
        import msgspec

        _encoder = msgspec.json.Encoder(order="deterministic")
    return t.cast(bytes, _encoder.encode(value))
