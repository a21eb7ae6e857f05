# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""FILE as plain values, with the line of each key."""

from __future__ import annotations

import re
import typing as t
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import yaml

from ....plugins.module_utils.kube.client.config.files import ConnectionSettingsError
from ....plugins.module_utils.kube.client.config.yaml_text import load_yaml
from ....plugins.module_utils.model.values.shown import shown_value
from ...common.settings import SettingsError, check_given_once

MAX_BYTES = 1024 * 1024
YAML_REMEDY = "; check this line and the one before it: equal indentation, spaces and no tabs, closed brackets, * and % in quotes"
KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")


@dataclass(frozen=True)
class Document:
    """The content of FILE. ``lines``: the line of each key by its path, such as profiles.web.agents[0].weight.

    ``errors``: a sentence for each key that is not a text. The settings have none, and JSON does not allow it. In ``content`` it is a text.
    """

    file: str
    digest: bytes
    content: dict[str, t.Any]
    lines: dict[str, int] = field(default_factory=dict)
    errors: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        """Return the beginning of each error text about FILE."""
        return f"file {self.file}"

    def with_line(self, text: str) -> str:
        """Return an error text with the line, if the text begins with FILE and the path of a key, or of a key below it."""
        start = f"{self.origin}, "
        if not text.startswith(start):
            return text
        rest = text.removeprefix(start)
        path = max((path for path in self.lines if _begins_with(rest, path)), key=len, default="")
        return f"{self.origin}, line {self.lines[path]}, {rest}" if path else text


def read_document(file: str) -> Document:
    """Return the content of FILE. Raises SettingsError."""
    try:
        with Path(file).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise SettingsError(f"file {file} has more than {MAX_BYTES} bytes")
        content = load_yaml(data)
    except OSError as error:
        raise SettingsError(f"file {file} cannot be read: {error.strerror or error}") from None
    except ConnectionSettingsError as error:
        raise SettingsError(f"file {file} cannot be read: {error}{YAML_REMEDY}") from None
    if not isinstance(content, dict):
        raise SettingsError(f"file {file}: settings by their names are expected, such as profiles")
    lines: dict[str, int] = {}
    errors: list[str] = []
    try:
        check_given_once(file, data)
        _note_lines(file, yaml.compose(data.decode("utf-8"), Loader=yaml.SafeLoader), "", lines, errors)
    except RecursionError:
        raise SettingsError(f"file {file} has too many levels of lists and mappings, or one that contains itself") from None
    if errors:
        _name_keys_by_texts(content)
    return Document(file, sha256(data).digest(), content, lines, tuple(errors))


def digest_of(file: str) -> bytes:
    """Return the digest of the content of FILE. Raises OSError."""
    return sha256(Path(file).read_bytes()).digest()


def _name_keys_by_texts(content: t.Any) -> None:
    """Replace each key that is not a text by a text, so that the other settings can be checked."""
    waiting: list[t.Any] = [content]
    seen: set[int] = set()
    while waiting:
        value = waiting.pop()
        if id(value) in seen or not isinstance(value, dict | list):
            continue
        seen.add(id(value))
        if isinstance(value, dict):
            named = {key if isinstance(key, str) else shown_value(key): given for key, given in value.items()}
            value.clear()
            value.update(named)
        waiting += value.values() if isinstance(value, dict) else value


def _note_lines(file: str, node: yaml.Node | None, path: str, lines: dict[str, int], errors: list[str]) -> None:
    """Note the line of each key, and an error for each key that is no text."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.tag not in KEY_TAGS:
                shown = f" {key.value}" if isinstance(key, yaml.ScalarNode) else ""
                errors.append(f"file {file}, line {key.start_mark.line + 1}: the key{shown} is not a text: write it in quotes")
            below = f"{path}.{key.value}" if path else str(key.value)
            # An alias has the lines of its anchor. They are noted at the first place.
            if below not in lines:
                lines[below] = key.start_mark.line + 1
                _note_lines(file, value, below, lines, errors)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            below = f"{path}[{number}]"
            lines[below] = value.start_mark.line + 1
            _note_lines(file, value, below, lines, errors)


def _begins_with(text: str, path: str) -> bool:
    """Return whether the text begins with the path as a whole."""
    return text.startswith(path) and not re.match(r"[\w-]", text[len(path) : len(path) + 1])
