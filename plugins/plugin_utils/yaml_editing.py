# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Changes of a YAML text that keep everything else in it byte by byte: comments, order, quotes and indentation.

A library that writes the whole document again would change these. The editor finds the places of the values by PyYAML's marks, and
replaces, inserts and removes lines. The result is read again: if it does not have the wanted value, the whole text is rendered.
"""

from __future__ import annotations

import json
import typing as t

import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.go_yaml import YamlTextError, compose, go_loader

from .yaml_rendering import render, render_flow

IDENTITIES = ("schedulerName", "urlPrefix", "name")
"""The keys by which the entries of two lists are the same entry."""


class Edited(t.NamedTuple):
    """A new text. ``keeps_comments`` is false if the whole text was written again."""

    text: str
    keeps_comments: bool = True


class _Change(t.NamedTuple):
    """The text between two indexes is replaced."""

    start: int
    end: int
    text: str


def edit(text, wanted):
    """Return the text with the wanted value. ``wanted`` is a mapping. Raise YamlTextError if the text is not YAML."""
    node, value = compose(text)
    if same_value(value, wanted):
        return Edited(text)
    newline = "\r\n" if "\r\n" in text else "\n"
    plain = text.replace("\r\n", "\n")
    if isinstance(node, yaml.MappingNode) and not _has_aliases(plain):
        if node.flow_style:
            return Edited(json.dumps(wanted, indent=2, ensure_ascii=False).replace("\n", newline) + newline, keeps_comments="#" not in text)
        changed = _Editor(plain).edited(wanted)
        if changed is not None:
            return Edited(changed.replace("\n", newline))
    return Edited(render(wanted).replace("\n", newline) + newline, keeps_comments="#" not in text)


def _has_aliases(text):
    """Return whether a document has aliases, so that a part of it has two places."""
    return any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=go_loader()))


def same_value(one, other):
    """Return whether two plain values are the same for kube-scheduler. The order of keys does not matter; true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_value(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same_value, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool) and type(one) in (int, float, type(other))


class _Editor:
    """The changes of one text in block style."""

    def __init__(self, text):
        self._text = text if text.endswith("\n") else text + "\n"
        self._node, self._value = compose(self._text)
        self._changes = []

    def edited(self, wanted):
        """Return the changed text, or None if the changes do not lead to the wanted value."""
        self._edit_mapping(self._node, self._value, wanted)
        text = self._text
        # From the end, so that the indexes of the others stay valid. Insertions at one place are in their order.
        in_order = sorted(self._changes, key=lambda change: (change.start, change.end))
        for change in reversed(in_order):
            text = text[: change.start] + change.text + text[change.end :]
        try:
            return text if same_value(_value_of(text), wanted) else None
        except YamlTextError:
            # The text has a form without places for the new lines, such as a key after a question mark.
            return None

    def _edit_mapping(self, node, value, wanted):
        entries = [(key.value, key, child) for key, child in node.value]
        kept = [entry for entry in entries if entry[0] in wanted]
        for index, (name, key, child) in enumerate(entries):
            if name not in wanted:
                following = entries[index + 1][1] if index + 1 < len(entries) else None
                self._remove(key, child, following)
            elif not same_value(value[name], wanted[name]):
                self._edit_value(key, child, value[name], wanted[name])
        column = node.value[0][0].start_mark.column
        added = {name: wanted[name] for name in wanted if name not in value}
        if added:
            last = (kept or entries)[-1]
            self._insert_after(last[1], last[2], render(added), column)

    def _edit_value(self, key, node, value, wanted):
        """Change the value of a key."""
        block = not getattr(node, "flow_style", True)
        if block and isinstance(value, dict) and isinstance(wanted, dict) and wanted.keys() & value.keys():
            self._edit_mapping(node, value, wanted)
        elif block and isinstance(value, list) and isinstance(wanted, list) and wanted:
            if not self._edit_list(node, value, wanted):
                self._replace_entry(key, node, wanted)
        elif _fits_in_place(node, wanted):
            self._changes.append(_Change(node.start_mark.index, node.end_mark.index, render_flow(wanted)))
        else:
            self._replace_entry(key, node, wanted)

    def _replace_entry(self, key, node, wanted):
        start, column = key.start_mark.index, key.start_mark.column
        text = _indented(render({key.value: wanted}), column)[column:]
        self._changes.append(_Change(start, self._line_end(self._content_end(key, node)), text))

    def _edit_list(self, node, value, wanted):
        """Change the entries of a list. Return False if entries change their order."""
        pairs = _matched(value, wanted)
        places = [place for place in pairs if place is not None]
        if not places or places != sorted(places):
            return False
        column = node.start_mark.column
        for index, child in enumerate(node.value):
            if index not in places:
                self._remove(child, child, None, column=column)
        for index, (entry, place) in enumerate(zip(wanted, pairs)):
            if place is None:
                before = next((one for one in reversed(pairs[:index]) if one is not None), None)
                self._insert_entry(node, before, places[0], entry, column)
            elif not same_value(value[place], entry):
                self._edit_entry(node.value[place], value[place], entry, column)
        return True

    def _edit_entry(self, node, value, wanted, column):
        block = isinstance(node, yaml.MappingNode) and not node.flow_style
        if block and isinstance(wanted, dict) and wanted.keys() & value.keys():
            self._edit_mapping(node, value, wanted)
        elif isinstance(node, yaml.CollectionNode) and node.flow_style:
            self._changes.append(_Change(node.start_mark.index, node.end_mark.index, render_flow(wanted)))
        else:
            start = self._line_start(node.start_mark.index)
            end = self._line_end(self._content_end(node, node))
            self._changes.append(_Change(start, end, _indented(render([wanted]), column)))

    def _insert_entry(self, node, before, first, entry, column):
        text = render([entry])
        if before is None:
            start = self._line_start(node.value[first].start_mark.index)
            self._changes.append(_Change(start, start, _indented(text, column) + "\n"))
        else:
            child = node.value[before]
            self._insert_after(child, child, text, column)

    def _insert_after(self, key, node, text, column):
        place = self._block_end(key, node, column)
        self._changes.append(_Change(place, place, _indented(text, column) + "\n"))

    def _remove(self, key, node, following, column=None):
        """Remove an entry with its comments. Those in front of the next entry are kept."""
        own_line = column is not None or not self._text[self._line_start(key.start_mark.index) : key.start_mark.index].strip()
        if own_line:
            start = self._line_start(key.start_mark.index)
            end = self._block_end(key, node, key.start_mark.column if column is None else column)
            self._changes.append(_Change(start, end, ""))
        elif following is not None:
            # The entry is on the line of the dash, which then begins the next one.
            self._changes.append(_Change(key.start_mark.index, following.start_mark.index, ""))

    def _block_end(self, key, node, column):
        """Return the index after the last line of an entry, with the comments that are indented more than it."""
        end = position = self._line_end(self._content_end(key, node)) + 1
        while position < len(self._text):
            line_end = self._line_end(position)
            line = self._text[position:line_end]
            position = line_end + 1
            if line.strip() and not (line.lstrip().startswith("#") and len(line) - len(line.lstrip()) > column):
                break
            if line.strip():
                end = position
        return min(end, len(self._text))

    def _content_end(self, key, node):
        """Return the index of the last character of an entry."""
        while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
            key, node = node.value[-1] if isinstance(node, yaml.MappingNode) else (node.value[-1],) * 2
        if isinstance(node, yaml.ScalarNode) and node.style in ("|", ">"):
            return len(self._text[: node.end_mark.index].rstrip()) - 1
        return max(key.end_mark.index, node.end_mark.index) - 1

    def _line_start(self, index):
        return self._text.rfind("\n", 0, index) + 1

    def _line_end(self, index):
        end = self._text.find("\n", index)
        return len(self._text) if end < 0 else end


def _fits_in_place(node, wanted):
    """Return whether the new value can be written in the place of the old one, in the same line."""
    if isinstance(node, yaml.ScalarNode):
        return node.style not in ("|", ">") and bool(node.value) and not isinstance(wanted, (dict, list))
    return node.flow_style and bool(node.value) and isinstance(wanted, (dict, list))


def _matched(value, wanted):
    """Return for each wanted entry the index of the same entry in the existing list, or None."""
    free = list(range(len(value)))
    found = []
    for entry in wanted:
        place = next((index for index in free if _is_same_entry(value[index], entry)), None)
        if place is not None:
            free.remove(place)
        found.append(place)
    return found


def _is_same_entry(one, other):
    if isinstance(one, dict) and isinstance(other, dict):
        key = next((key for key in IDENTITIES if key in other), None)
        if key is not None:
            return same_value(one.get(key), other[key])
    return same_value(one, other)


def _indented(text, column):
    return "\n".join(" " * column + line if line else line for line in text.split("\n"))


def _value_of(text):
    return compose(text)[1]
