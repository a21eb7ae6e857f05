# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A YAML document with settings: its content, its nodes with their lines, and the keys that occur twice in a mapping."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

import yaml

from ...plugins.module_utils.kube.client.config.files import ConnectionSettingsError
from ...plugins.module_utils.kube.client.config.yaml_text import TooDeepError, compose_yaml, load_yaml

MAX_VALUES = 100_000
"""Values of a document. A value of an anchor counts again for each alias, because the program reads it again at each place."""

MAX_LEVELS = 50
"""Levels of lists and mappings in a document."""

MAX_NUMBER = 10_000
"""Characters of a number. YAML 1.1 has numbers such as 1:30:00, and one with a million characters takes a minute to calculate."""

NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")

TOO_DEEP = "it has too many levels of lists and mappings, or one that contains itself"


class DocumentLimitError(ConnectionSettingsError):
    """A document that YAML allows is larger or deeper than any settings."""


class YamlDocument(t.NamedTuple):
    """The content of a document, and the root of its nodes. Both are None if the document is empty."""

    content: t.Any
    root: yaml.Node | None


class _Size(t.NamedTuple):
    """The number of values in a node, and of its levels."""

    values: int
    levels: int


class RepeatedKey(t.NamedTuple):
    """A key that occurs twice in one mapping, with both lines. YAML uses the last value without an error."""

    node: yaml.MappingNode
    name: str
    first_line: int
    line: int

    @property
    def problem(self) -> str:
        """Return the end of an error text. It follows the name."""
        return f" occurs in line {self.first_line} and in line {self.line}: keep one of them"


def read_yaml(data: bytes) -> YamlDocument:
    """Return a document. Raises ConnectionSettingsError, and DocumentLimitError if it has too many values or levels, or a long number.

    The values are counted first, because nested aliases and merge keys can make a short document very large.
    """
    try:
        root = compose_yaml(data)
        if root is None:
            return YamlDocument(None, None)
        size = _size_of(root, {})
    except (TooDeepError, RecursionError):
        raise DocumentLimitError(TOO_DEEP) from None
    if size.levels > MAX_LEVELS:
        raise DocumentLimitError(TOO_DEEP)
    if size.values > MAX_VALUES:
        raise DocumentLimitError(
            f"it has more than {MAX_VALUES} values, where each value of an anchor counts again for each of its aliases"
        )
    return YamlDocument(load_yaml(data), root)


def repeated_keys(root: yaml.Node | None) -> Iterator[RepeatedKey]:
    """Return the keys that occur twice in a mapping, at any depth. A mapping with several aliases is searched once."""
    waiting = [root] if root is not None else []
    searched: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in searched:
            continue
        searched.add(id(node))
        if isinstance(node, yaml.MappingNode):
            yield from _repeated_in(node)
        waiting += _children_of(node)


def line_of(node: yaml.Node) -> int:
    """Return the line in which a node begins. The first line has the number 1."""
    return int(node.start_mark.line) + 1


def _children_of(node: yaml.Node) -> list[yaml.Node]:
    """Return the keys and values of a mapping, or the entries of a list."""
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _repeated_in(node: yaml.MappingNode) -> Iterator[RepeatedKey]:
    seen: dict[tuple[str, str], int] = {}
    for key, _value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        name, line = (key.tag, key.value), line_of(key)
        if name in seen:
            yield RepeatedKey(node, key.value, seen[name], line)
        seen[name] = line


def _size_of(node: yaml.Node, known: dict[int, _Size | None]) -> _Size:
    """Return the size of a node. Each node is counted once.

    Raises RecursionError for a node that contains itself, and DocumentLimitError for a long number.
    """
    if id(node) not in known:
        known[id(node)] = None
        if node.tag in NUMBER_TAGS and len(node.value) > MAX_NUMBER:
            raise DocumentLimitError(f"the number in line {line_of(node)} has more than {MAX_NUMBER} characters")
        children = [_size_of(child, known) for child in _children_of(node)]
        found = _Size(1 + sum(child.values for child in children), 1 + max((child.levels for child in children), default=0))
        known[id(node)] = found
    size = known[id(node)]
    if size is None:
        raise RecursionError
    return size
