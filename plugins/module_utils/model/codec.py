# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Decode JSON from the API server into typed structs, and encode structs.

This is the only file that imports msgspec. If msgspec is missing (documentation builds, sanity tests on old interpreters), placeholders
keep the structs importable. A module reports ``MSGSPEC_IMPORT_ERROR`` before it uses them.
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
            """Placeholder that ignores msgspec's class options."""

            def __init_subclass__(cls, **options):
                super().__init_subclass__()

        class Raw(bytes):
            """Placeholder for an undecoded part of a message."""

        class ValidationError(ValueError):
            """Placeholder for msgspec's error."""

        class MsgspecDecodeError(ValueError):
            """Placeholder for msgspec's error."""

        def field(**options):
            """Placeholder for msgspec's field declaration."""
            return None

        def force_setattr(struct, name, value):
            """Placeholder for msgspec's write to a frozen struct."""
            setattr(struct, name, value)

        def replace(struct, **changes):
            """Placeholder for msgspec's copy with changes."""
            raise RuntimeError("the Python library msgspec is missing")


__all__ = [
    "MSGSPEC_IMPORT_ERROR",
    "DecodeError",
    "ListMeta",
    "Raw",
    "Struct",
    "UndecodedItem",
    "WatchEvent",
    "convert",
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
    """One line of a watch. ``object`` stays undecoded, because its type is not known here."""

    type: str
    object: Raw


class ListMeta(Struct, rename={"continue_": "continue", "resource_version": "resourceVersion"}, frozen=True):
    """The metadata of a page of a list.

    ``continue_`` is the token of the next page and is empty on the last page. ``resource_version`` is the version of the state that the
    list shows.
    """

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
    """The bytes do not match the type. The text names the type and the place in the message."""


class UndecodedItem(t.NamedTuple):
    """The bytes of a list item that cannot be decoded, and the error."""

    data: bytes
    error: DecodeError


def decode_json(kind: type[T], data: bytes | str) -> T:
    """Decode one JSON message into ``kind``. Raises DecodeError, which names the part that does not match and its place."""
    decoder = _decoders.get(kind) or _made_decoder(kind)
    try:
        return t.cast(T, decoder.decode(data))
    except (ValidationError, MsgspecDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _decode_error(kind, error) from error


def convert(kind: type[T], value: t.Any) -> T:
    """Convert plain values, such as those of a YAML file, into ``kind``.

    Raises DecodeError. Its text says what is expected, and the place, as in: Expected `int`, got `str` - at `$.devices[0].speed`.
    """
    try:
        return t.cast(T, _convert(value, kind))
    except (ValidationError, RecursionError) as error:
        raise DecodeError(str(error)) from error


def decode_object(kind: type[T], data: bytes) -> T:
    """Decode one API object into ``kind``. A ``null`` counts as absent in every field at every depth. Raises DecodeError.

    Only an object that does not match directly is decoded again by way of plain values, which is slower. Parts that are nested deeper than
    any field of the API are left out. ``managedFields`` can contain such parts, and interpreters limit the depth of recursion.
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
    """Return one line of a watch. Raises DecodeError if the line is not an event.

    This also works if the object of the event is not valid JSON or is nested too deep.
    """
    try:
        return decode_json(WatchEvent, line)
    except DecodeError:
        # The object can still be separated by its brackets.
        kind, item = member(line, "type"), member(line, "object")
        if kind is None or item is None:
            raise
        return WatchEvent(decode_json(str, kind), Raw(item))


def decode_items(item: type[T], data: bytes) -> list[T | UndecodedItem]:
    """Return the items of one page of a JSON list in their order, each decoded by ``decode_object``.

    Raises DecodeError if it is not a list.
    """
    try:
        page: t.Any = decode_json(_list_types.get(item) or _made_list_type(item), data)
        return page.items or []
    except DecodeError:
        return [_decode_item(item, part) for part in _split(data)]


def decode_parts(kind: type[T], data: bytes) -> T:
    """Return a struct with the fields that can be decoded one by one. The other fields have their defaults.

    A map of texts keeps the entries that can be decoded. This never raises DecodeError: it is for objects that cannot be decoded as a
    whole.
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
    """Return the fields of a struct. Each has ``name``, ``encode_name`` and ``type``."""
    import msgspec

    return msgspec.structs.fields(kind)


def member(data: bytes, *path: str) -> bytes | None:
    """Return the bytes of one part of an object, or None if it is absent or null.

    Raises DecodeError if a part on the path is not an object.
    """
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
    """Return the items of a page as bytes. Raises DecodeError if it is not a list."""
    try:
        page: t.Any = decode_json(_list_types.get(Raw) or _made_list_type(Raw), data)
        return [bytes(item) for item in page.items or ()]
    except DecodeError as error:
        # A part is not valid JSON or is nested too deep. The items can still be separated by their brackets.
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
    """Return the decoder of a type. It is made at first use, because msgspec may be absent when this file is imported."""
    import msgspec

    # The lock allows one thread at a time. msgspec stores information about a type on the type before the information is complete. If
    # another thread then makes a decoder of a type that contains this one, the process ends by a segmentation fault.
    with _making:
        if kind not in _decoders:
            _decoders[kind] = msgspec.json.Decoder(kind)
        return _decoders[kind]


def _made_list_type(item: type[t.Any]) -> t.Any:
    import msgspec

    # mypy rejects a variable as a type, but here the item type is a variable.
    fields = [("items", t.Optional[list[item]], None)]  # type: ignore[valid-type]
    with _making:
        if item not in _list_types:
            _list_types[item] = msgspec.defstruct(f"{item.__name__}List", fields, frozen=True)
        return _list_types[item]


# In a list of a built-in type the API server writes the token before the items, so the items need not be scanned for it.
_LIST_START = re.compile(rb'\{"kind":"\w+","apiVersion":"[\w./]+","metadata":(\{[^{}]*\}),"items":')


def list_start(data: bytes) -> t.Optional[ListMeta]:
    """Return ``list_meta`` from the first bytes of a page. Return None if these bytes do not contain it."""
    start = _LIST_START.match(data)
    return decode_object(ListMeta, start[1]) if start is not None else None


def list_meta(data: bytes) -> ListMeta:
    """Return the metadata of a page: the token of the next page, and the resource version."""
    return list_start(data) or _list_head(data).metadata


def resource_version_of(data: bytes) -> str:
    """Return the resource version of a bookmark.

    Nothing else of a bookmark can be decoded: a pod's bookmark has null where the type requires containers.
    """
    return _list_head(data).metadata.resource_version


def _list_head(data: bytes) -> ListHead:
    try:
        return decode_json(ListHead, data)
    except DecodeError:
        return decode_object(ListHead, data)  # a part of the page is nested too deep


def encode_json(value: t.Any) -> bytes:
    """Return the JSON bytes of structs and plain values. Equal values give equal bytes."""
    global _encoder
    if _encoder is None:
        import msgspec

        _encoder = msgspec.json.Encoder(order="deterministic")
    return t.cast(bytes, _encoder.encode(value))
