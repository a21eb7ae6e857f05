# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Splits JSON text by its strings and brackets alone, for objects that a decoder refuses. Nothing here recurses or raises."""

from __future__ import annotations

import re
import typing as t

DEEPEST = 100
"""No field of the types that are read is nested this deep."""

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]', re.DOTALL)
_OPENING, _CLOSING = (b"{", b"["), (b"}", b"]")


def members(data: bytes) -> t.Optional[dict[str, bytes]]:
    """The members of an object, by name, as they are written; None where the text is no object, or has no end."""
    parts = _parts(data, b"{")
    return None if parts is None else {key.strip(b'" \t\r\n').decode("utf-8", "replace"): value for key, value in parts}


def elements(data: bytes) -> t.Optional[list[bytes]]:
    """The elements of an array, as they are written; None where the text is no array, or has no end."""
    parts = _parts(data, b"[")
    return None if parts is None else [value for _key, value in parts]


def without_deep_parts(data: bytes) -> bytes:
    """The text with ``null`` in place of every part that is nested deeper than ``DEEPEST``."""
    kept: list[bytes] = []
    begin = depth = 0
    for token in _TOKEN.finditer(data):
        if token[0] in _OPENING:
            depth += 1
            if depth == DEEPEST:
                kept.append(data[begin : token.start()])
        elif token[0] in _CLOSING:
            if depth == DEEPEST:
                kept.append(b"null")
                begin = token.end()
            depth -= 1
    return b"".join((*kept, data[begin:]))


def _parts(data: bytes, opening: bytes) -> t.Optional[list[tuple[bytes, bytes]]]:
    """Key (empty in an array) and value of each part of the outermost object or array."""
    if not data.lstrip().startswith(opening):
        return None
    found: list[tuple[bytes, bytes]] = []
    begin = depth = 0
    key = b""
    for token in _TOKEN.finditer(data):
        if token[0] in _OPENING:
            depth += 1
            if depth == 1:
                begin = token.end()
        elif token[0] in _CLOSING:
            depth -= 1
        if depth == 1 and token[0] == b":":
            key, begin = data[begin : token.start()], token.end()
        elif (depth == 1 and token[0] == b",") or depth == 0:
            value = data[begin : token.start()].strip()
            if value:
                found.append((key, value))
            key, begin = b"", token.end()
        if depth == 0:
            return found
    return None
