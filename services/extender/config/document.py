# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""FILE as plain values, with the line of each setting."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

import yaml

from ....plugins.module_utils.kube.client.config.files import ConnectionSettingsError
from ....plugins.module_utils.model.values.shown import shown_value
from ...common.settings import SettingsError
from ...common.yaml_document import DocumentLimitError, line_of, read_yaml, repeated_keys
from ..settings_errors import FileSettingError, SettingPath

MAX_BYTES = 1024 * 1024
YAML_REMEDY = "; check this line and the one before it: equal indentation, spaces and no tabs, closed brackets, * and % in quotes"
TEXT_TAG, MERGE_TAG = "tag:yaml.org,2002:str", "tag:yaml.org,2002:merge"


@dataclass(frozen=True)
class Document:
    """The content of FILE. ``lines``: the line of each setting by its path.

    ``errors``: an error for each key that is not a text, and for each that occurs twice. The settings have no key that is not a text, and
    JSON does not allow one. In ``content`` it is a text. Of a key that occurs twice, ``content`` has the last value.
    """

    file: str
    digest: bytes
    content: dict[str, t.Any]
    lines: Mapping[SettingPath, int] = field(default_factory=dict)
    errors: tuple[SettingsError, ...] = ()

    def shown(self, error: SettingsError) -> str:
        """Return an error for people. One about FILE has the line of its setting, or of the mapping in which a setting is missing."""
        if not isinstance(error, FileSettingError):
            return str(error)
        known = (error.path[:length] for length in range(len(error.path), 0, -1))
        line = next((f", line {self.lines[path]}" for path in known if path in self.lines), "")
        return f"file {self.file}{line}, {error}"


def read_document(file: str) -> Document:
    """Return the content of FILE. Raises SettingsError."""
    try:
        with Path(file).open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise SettingsError(f"file {file} has more than {MAX_BYTES} bytes")
        content, root = read_yaml(data)
    except OSError as error:
        raise SettingsError(f"file {file} cannot be read: {error.strerror or error}") from None
    except DocumentLimitError as error:
        raise SettingsError(f"file {file} cannot be used: {error}") from None
    except ConnectionSettingsError as error:
        raise SettingsError(f"file {file} cannot be read: {error}{YAML_REMEDY}") from None
    if not isinstance(content, dict):
        problem = "is empty" if content is None else "is not a mapping"
        raise SettingsError(f"file {file} {problem}: its settings are expected as NAME: VALUE, such as profiles: {{…}}")
    settings = list(_settings_in(root, ()))
    lines = {setting.path: setting.line for setting in settings}
    wrong = _keys_without_text(file, settings)
    if wrong:
        _name_keys_by_texts(content)
    return Document(file, sha256(data).digest(), content, lines, (*wrong, *_repeated(root, settings)))


def digest_of(file: str) -> bytes:
    """Return the digest of the content of FILE. Raises OSError."""
    return sha256(Path(file).read_bytes()).digest()


class _Setting(t.NamedTuple):
    """A value of FILE with its path and its line. ``key`` is its key, and None for an entry of a list."""

    path: SettingPath
    line: int
    value: yaml.Node
    key: yaml.Node | None = None


def _settings_in(node: yaml.Node | None, path: SettingPath) -> Iterator[_Setting]:
    """Return the settings below a path. Of settings with the same path the last one counts.

    An alias has the lines of its anchor. The number of settings is limited by ``read_yaml``.
    """
    for one in _entries_of(node, path):
        if one.key is not None and one.key.tag == MERGE_TAG:
            merged = one.value.value if isinstance(one.value, yaml.SequenceNode) else [one.value]
            for mapping in merged:
                yield from _settings_in(mapping, path)
    for one in _entries_of(node, path):
        if one.key is None or one.key.tag != MERGE_TAG:
            yield one
            yield from _settings_in(one.value, one.path)


def _entries_of(node: yaml.Node | None, path: SettingPath) -> Iterator[_Setting]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            yield _Setting((*path, str(name)), line_of(key), value, key)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield _Setting((*path, number), line_of(value), value)


def _keys_without_text(file: str, settings: list[_Setting]) -> list[SettingsError]:
    """Return an error for each key that is not a text. An alias repeats none."""
    keys = {id(one.key): one for one in settings if one.key is not None and one.key.tag != TEXT_TAG}
    found = []
    for one in keys.values():
        shown = f" {one.path[-1]}" if isinstance(one.key, yaml.ScalarNode) else ""
        found.append(SettingsError(f"file {file}, line {one.line}: the key{shown} is not a text: write it in quotes"))
    return found


def _repeated(root: yaml.Node | None, settings: list[_Setting]) -> list[SettingsError]:
    """Return an error for each key that occurs twice in a mapping."""
    paths: dict[int, SettingPath] = {id(root): ()}
    for one in settings:
        paths.setdefault(id(one.value), one.path)
    found: list[SettingsError] = []
    for twice in repeated_keys(root):
        found.append(FileSettingError((*paths.get(id(twice.node), ()), twice.name), twice.problem))
    return found


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
