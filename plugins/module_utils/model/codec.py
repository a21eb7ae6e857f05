# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Bytes from the API server to typed structs, once.

The only file that imports msgspec. Where msgspec is missing (documentation builds, sanity tests on old interpreters)
stand-ins keep the structs importable, and a module reports ``MSGSPEC_IMPORT_ERROR`` before it uses them.
"""

from __future__ import annotations

import contextlib
import re
import threading
import typing as t
from functools import cache

from .json_parts import elements, members, without_deep_parts

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
    "DecodeError",
    "ListMeta",
    "Raw",
    "Struct",
    "UndecodedItem",
    "WatchEvent",
    "decode_items",
    "decode_json",
    "decode_object",
    "decode_parts",
    "decode_watch_event",
    "encode_json",
    "field",
    "fields_of",
    "force_setattr",
    "list_meta",
    "member",
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


class DecodeError(ValueError):
    """The bytes are not what the type says; the text names the type and the place in the message."""


class UndecodedItem(t.NamedTuple):
    """An item of a list that cannot be decoded: its bytes, and the reason."""

    data: bytes
    error: DecodeError


def decode_json(kind: type[T], data: bytes | str) -> T:
    """Decode one JSON message into ``kind``; raises DecodeError that says what did not fit and where."""
    decoder = _decoders.get(kind) or _made_decoder(kind)
    try:
        return t.cast(T, decoder.decode(data))
    except (ValidationError, MsgspecDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _decode_error(kind, error) from error


def decode_object(kind: type[T], data: bytes) -> T:
    """Decode one object of the API into ``kind``. In every field, at every depth, ``null`` counts as absent. Raises DecodeError.

    Only an object that does not fit as it is takes the slow way over plain values. What is nested deeper than any field of the API is left
    out: ``managedFields`` can hold it, and interpreters bound how deep they read.
    """
    try:
        return decode_json(kind, data)
    except DecodeError as error:
        if isinstance(error.__cause__, RecursionError):
            data = without_deep_parts(data)
    try:
        return t.cast(T, _convert(_without_nulls(_decode_plain(data)), kind))
    except (ValidationError, MsgspecDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _decode_error(kind, error) from error


def decode_watch_event(line: bytes) -> WatchEvent:
    """One line of a watch, also where its object is no JSON or is nested too deep. Raises DecodeError where it is no event."""
    try:
        return decode_json(WatchEvent, line)
    except DecodeError:
        # The brackets may still tell the object apart.
        kind, item = member(line, "type"), member(line, "object")
        if kind is None or item is None:
            raise
        return WatchEvent(decode_json(str, kind), Raw(item))


def decode_items(item: type[T], data: bytes) -> list[T | UndecodedItem]:
    """The items of one page of a JSON list, as ``decode_object`` reads them, in their order. Raises DecodeError where it is no list."""
    try:
        page: t.Any = decode_json(_list_types.get(item) or _made_list_type(item), data)
        return page.items or []
    except DecodeError:
        return [_decode_item(item, part) for part in _split(data)]


def decode_parts(kind: type[T], data: bytes) -> T:
    """A struct of those fields that can be decoded by themselves; the others have their defaults. A map of texts keeps what fits.

    Never raises DecodeError: it is for objects that cannot be decoded as a whole.
    """
    parts = _members(data)
    found: dict[str, t.Any] = {}
    for entry in fields_of(t.cast(t.Any, kind)):
        part = parts.get(entry.encode_name)
        if part is None:
            continue
        try:
            value = decode_object(entry.type, part)
        except DecodeError:
            value = _readable_texts(part) if entry.type == t.Optional[dict[str, str]] else None
        if value is not None:
            found[entry.name] = value
    return kind(**found)


@cache
def fields_of(kind: t.Any) -> tuple[t.Any, ...]:
    """The fields of a struct: ``name``, ``encode_name`` and ``type`` of each."""
    import msgspec

    return msgspec.structs.fields(kind)


def member(data: bytes, *path: str) -> bytes | None:
    """The bytes of one part of an object; None where it is absent or null. Raises DecodeError where an object on the path is none."""
    for name in path:
        found = members(data)
        if found is None:
            raise DecodeError(f"{name} is not in an object")
        data = found.get(name, b"null")
        if data == b"null":
            return None
    return data


def _members(data: bytes) -> dict[str, bytes]:
    return members(data) or {}


def _readable_texts(data: bytes) -> dict[str, str]:
    found: dict[str, str] = {}
    for key, part in _members(data).items():
        with contextlib.suppress(DecodeError):
            found[key] = decode_json(str, part)
    return found


def _decode_item(kind: type[T], data: bytes) -> T | UndecodedItem:
    try:
        return decode_object(kind, data)
    except DecodeError as error:
        return UndecodedItem(data, error)


def _split(data: bytes) -> list[bytes]:
    """The items of a page as bytes. Raises DecodeError where it is no list."""
    try:
        page: t.Any = decode_json(_list_types.get(Raw) or _made_list_type(Raw), data)
        return [bytes(item) for item in page.items or ()]
    except DecodeError as error:
        # A part that is no JSON, or is nested too deep: the brackets may still tell the items apart.
        part = _members(data).get("items")
        found = elements(part) if part is not None else None
        if found is None:
            raise error
        return found


def _without_nulls(value: t.Any) -> t.Any:
    if isinstance(value, dict):
        return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [_without_nulls(entry) for entry in value if entry is not None]
    return value


def _decode_plain(data: bytes) -> t.Any:
    import msgspec

    return msgspec.json.decode(data)


def _convert(value: t.Any, kind: type[t.Any]) -> t.Any:
    import msgspec

    return msgspec.convert(value, kind)


def _decode_error(kind: type[t.Any], error: BaseException) -> DecodeError:
    return DecodeError(f"cannot read the answer as {getattr(kind, '__name__', str(kind))}: {error}")


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
    return decode_object(ListMeta, start[1]) if start is not None else None


def list_meta(data: bytes) -> ListMeta:
    """What a page of a list says of the list: the token for the page after this one, and the resource version."""
    return list_start(data) or _list_head(data).metadata


def resource_version_of(data: bytes) -> str:
    """The state of the cluster that a bookmark stands for. Nothing else of it can be read: a pod's has null where the containers belong."""
    return _list_head(data).metadata.resource_version


def _list_head(data: bytes) -> ListHead:
    try:
        return decode_json(ListHead, data)
    except DecodeError:
        return decode_object(ListHead, data)  # a page with a deep part


def encode_json(value: t.Any) -> bytes:
    """JSON bytes of structs and plain values; equal values give equal bytes."""
    global _encoder
    if _encoder is None:
        import msgspec

        _encoder = msgspec.json.Encoder(order="deterministic")
    return t.cast(bytes, _encoder.encode(value))
