# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Split JSON text by its strings and brackets only, for objects that a decoder rejects. Nothing here recurses or raises."""

from __future__ import annotations

import re
import typing as t

DEEPEST = 100
"""Nesting depth. No field of the types that are read is nested this deep."""

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\],:]', re.DOTALL)
_OPENING, _CLOSING = (b"{", b"["), (b"}", b"]")


def members(data: bytes) -> t.Optional[dict[str, bytes]]:
    """Return the undecoded members of an object by name. Return None if the text is not an object or is incomplete."""
    parts = _parts(data, b"{")
    return None if parts is None else {key.strip(b'" \t\r\n').decode("utf-8", "replace"): value for key, value in parts}


def elements(data: bytes) -> t.Optional[list[bytes]]:
    """Return the undecoded elements of an array. Return None if the text is not an array or is incomplete."""
    parts = _parts(data, b"[")
    return None if parts is None else [value for _key, value in parts]


def without_deep_parts(data: bytes) -> bytes:
    """Return the text with ``null`` in place of every part that is nested ``DEEPEST`` levels deep or deeper."""
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
    """Return the key (empty in an array) and the value of each part of the outermost object or array."""
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
