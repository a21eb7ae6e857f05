# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""FILE as plain values, with the line of each setting."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import yaml

from ...plugins.module_utils.kube.client.config.files import ConnectionSettingsError
from ...plugins.module_utils.kube.client.config.yaml_text import TooDeepError, compose_yaml, load_yaml
from ...plugins.module_utils.model.values.shown import shown_value
from .typed_settings import Mistake, Mistakes, SettingPath, SettingsError

MAX_BYTES = 1024 * 1024

MAX_VALUES = 100_000
"""Values of a document. A value of an anchor counts again for each alias, because the program reads it again at each place."""

MAX_LEVELS = 50
"""Levels of lists and mappings in a document."""

MAX_NUMBER = 10_000
"""Characters of a number. YAML 1.1 has numbers such as 1:30:00, and one with a million characters takes a minute to calculate."""

NUMBER_TAGS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
TEXT_TAG, MERGE_TAG = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"
TOO_DEEP = "it has too many levels of lists and mappings, or one that contains itself"
YAML_REMEDY = "; check this line and the one before it: equal indentation, spaces and no tabs, closed brackets, * and % in quotes"


@dataclass(frozen=True)
class Document:
    """The content of FILE. ``lines``: the line of each setting by its path. An alias has the lines of its anchor.

    ``mistakes``: the keys that are not texts, and those that occur twice in a mapping. YAML uses the last value of such a key without an
    error. In ``content`` all keys are texts.
    """

    file: str = ""
    digest: bytes = b""
    content: Mapping[str, t.Any] = field(default_factory=dict)
    lines: Mapping[SettingPath, int] = field(default_factory=dict)
    mistakes: tuple[Mistake, ...] = ()

    def shown(self, mistake: Mistake) -> str:
        """Return a mistake for people, with the line of its setting, or of the mapping in which a setting is missing."""
        if not (self.file and mistake.path):
            return str(mistake)
        known = (mistake.path[:length] for length in range(len(mistake.path), 0, -1))
        line = next((f", line {self.lines[path]}" for path in known if path in self.lines), "")
        return f"file {self.file}{line}, {mistake}"


class DocumentLimitError(ConnectionSettingsError):
    """The document is valid YAML, but larger or deeper than any settings."""


def read_document(file: str) -> Document:
    """Return the content of FILE. An empty one has no settings. Raises SettingsError."""
    try:
        with Path(file).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise SettingsError(f"file {file} has more than {MAX_BYTES} bytes")
        root, places = compose_yaml(data), _Places()
        if root is not None:
            places.visit(root, ())
        content = load_yaml(data)
    except OSError as error:
        raise SettingsError(f"file {file} cannot be read: {error.strerror or error}") from None
    except (TooDeepError, RecursionError):
        raise SettingsError(f"file {file} cannot be used: {TOO_DEEP}") from None
    except DocumentLimitError as error:
        raise SettingsError(f"file {file} cannot be used: {error}") from None
    except ConnectionSettingsError as error:
        raise SettingsError(f"file {file} cannot be read: {error}{YAML_REMEDY}") from None
    if content is not None and not isinstance(content, dict):
        raise SettingsError(f"file {file} is not a mapping: its settings are expected as NAME: VALUE")
    return Document(file, sha256(data).digest(), _with_text_keys(content or {}), places.lines, tuple(places.mistakes))


def digest_of(file: str) -> bytes:
    """Return the digest of the content of FILE. Raises OSError."""
    return sha256(Path(file).read_bytes()).digest()


class _Places:
    """The lines of the settings in a tree of nodes, and the mistakes in its keys."""

    def __init__(self) -> None:
        self.lines: dict[SettingPath, int] = {}
        self.mistakes = Mistakes()
        self._checked: set[int] = set()
        self._values = 0

    def visit(self, node: yaml.Node, path: SettingPath) -> None:
        """Find the settings at a path and below it. Of settings with the same path the last one counts.

        Raises DocumentLimitError for too many values or levels and for a long number, and RecursionError for a mapping that merges itself.
        Nested aliases and merge keys can make a short document very large.
        """
        self._values += 1
        if self._values > MAX_VALUES:
            raise DocumentLimitError(
                f"it has more than {MAX_VALUES} values, where each value of an anchor counts again for each of its aliases"
            )
        if len(path) >= MAX_LEVELS:
            raise DocumentLimitError(TOO_DEEP)
        if node.tag in NUMBER_TAGS and len(node.value) > MAX_NUMBER:
            raise DocumentLimitError(f"the number in line {_line_of(node)} has more than {MAX_NUMBER} characters")
        if isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                self.lines[*path, number] = _line_of(value)
                self.visit(value, (*path, number))
        elif isinstance(node, yaml.MappingNode):
            self._check_keys(node, path)
            # The keys of a mapping have precedence over those that it merges.
            for key, value in sorted(node.value, key=lambda pair: pair[0].tag != MERGE_TAG):
                self.visit(key, path)
                if key.tag == MERGE_TAG:
                    for mapping in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                        self.visit(mapping, path)
                else:
                    name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
                    self.lines[*path, name] = _line_of(key)
                    self.visit(value, (*path, name))

    def _check_keys(self, node: yaml.MappingNode, path: SettingPath) -> None:
        """Check the keys of a mapping. One with several aliases is checked once."""
        seen: dict[tuple[str, str], int] = {}
        for key, _value in node.value if id(node) not in self._checked else ():
            is_scalar, line = isinstance(key, yaml.ScalarNode), _line_of(key)
            if key.tag not in (TEXT_TAG, MERGE_TAG):
                shown = f" {key.value}" if is_scalar else ""
                self.mistakes.add((*path, str(key.value) if is_scalar else ""), f": the key{shown} is not a text: write it in quotes")
            if is_scalar and (key.tag, key.value) in seen:
                self.mistakes.add((*path, key.value), f" occurs in line {seen[key.tag, key.value]} and in line {line}: keep one of them")
            if is_scalar:
                seen[key.tag, key.value] = line
        self._checked.add(id(node))


def _line_of(node: yaml.Node) -> int:
    """Return the line in which a node begins. The first line has the number 1."""
    return int(node.start_mark.line) + 1


def _with_text_keys(value: t.Any) -> t.Any:
    """Return a value in which each key that is not a text is replaced by a text, so that the other settings can be checked."""
    if isinstance(value, dict):
        return {key if isinstance(key, str) else shown_value(key): _with_text_keys(one) for key, one in value.items()}
    return [_with_text_keys(one) for one in value] if isinstance(value, list) else value
