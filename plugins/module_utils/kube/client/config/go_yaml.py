# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""YAML and JSON texts as kube-scheduler reads them: YAML 1.1 with Go's numbers, without dates, and with each key once."""

from __future__ import annotations

import re
import typing as t
from functools import lru_cache

from .yaml_text import yaml

MAX_LEVELS = 100
"""Levels of lists and mappings in a document. A deeper one is refused before Python's own limit is reached."""
MAX_VALUES = 100_000
"""Values in a document, with those that aliases repeat. A short text with aliases of aliases may have any number."""

GO_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
GO_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*|0)")
GO_SHORT_BOOL = re.compile(r"[yYnN]")
"""Go's library reads them as true and false, and PyYAML as texts."""
_TAG = "tag:yaml.org,2002:"
_OTHERS = ("bool", "null", "merge")


class YamlTextError(Exception):
    """A text is not one YAML document with plain values. The message has the place."""


class _GoTypes:
    """The methods that read the types of Go's library. PyYAML's loader is the base class of the loader with them."""

    def construct_mapping(self, node: t.Any, deep: bool = False) -> t.Any:
        """Return a mapping. Raise ConstructorError for a key that is there twice, also by a merge of another mapping."""
        yaml.SafeLoader.flatten_mapping(self, node)
        seen: set[str] = set()
        for key_node, _value in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a list or a mapping is no key", key_node.start_mark)
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key_node.value} is there twice", key_node.start_mark)
            seen.add(key_node.value)
        return yaml.SafeLoader.construct_mapping(self, node, deep=deep)

    def construct_go_integer(self, node: t.Any) -> int:
        """Return a whole number. 0o17 and 017 are octal."""
        text = node.value.replace("_", "")
        sign, digits = (-1, text[1:]) if text[:1] == "-" else (1, text.lstrip("+"))
        if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
            digits = f"0o{digits[1:]}"
        return sign * int(digits, 0)

    def construct_go_float(self, node: t.Any) -> float:
        """Return a number with a fraction or an exponent."""
        text = node.value.lower()
        return float(text.replace(".", "", 1) if text.endswith(("inf", "nan")) else text)


@lru_cache(maxsize=1)
def go_loader() -> t.Any:
    """Return the class of the loader. It is made at the first use, because PyYAML may be missing where this file is imported."""
    base = yaml.SafeLoader
    members = {"yaml_implicit_resolvers": {}, "bool_values": {**base.bool_values, "y": True, "n": False}}
    loader: t.Any = type("_GoLoader", (_GoTypes, base), members)
    for first, resolvers in base.yaml_implicit_resolvers.items():
        for tag, pattern in resolvers:
            if tag.rpartition(":")[2] in _OTHERS:
                loader.add_implicit_resolver(tag, pattern, [first])
    # An integer is also a Go float, so it comes first.
    for name, pattern in (("int", GO_INTEGER), ("float", GO_FLOAT)):
        loader.add_implicit_resolver(f"{_TAG}{name}", re.compile(rf"(?:{pattern.pattern})\Z"), list("-+.0123456789"))
    loader.add_implicit_resolver(f"{_TAG}bool", re.compile(rf"(?:{GO_SHORT_BOOL.pattern})\Z"), list("yYnN"))
    loader.add_constructor(f"{_TAG}int", loader.construct_go_integer)
    loader.add_constructor(f"{_TAG}float", loader.construct_go_float)
    return loader


@lru_cache(maxsize=1)
def _go_dumper() -> t.Any:
    """Return the class of the dumper. It writes no aliases."""
    dumper: t.Any = type("_GoDumper", (yaml.SafeDumper,), {"ignore_aliases": lambda _dumper, _data: True})
    dumper.add_representer(str, _represent_text)
    return dumper


def _represent_text(dumper: t.Any, text: str) -> t.Any:
    quoted = any(pattern.fullmatch(text) for pattern in (GO_FLOAT, GO_INTEGER, GO_SHORT_BOOL))
    return dumper.represent_scalar(f"{_TAG}str", text, style="'" if quoted else None)


def dump(content: t.Any, **options: t.Any) -> str:
    """Return a YAML document in which each field has a line of its own, and in which a text is a text for Go's library, too.

    ``options``: those of ``yaml.dump``.
    """
    text: str = yaml.dump(
        content, Dumper=_go_dumper(), **{"default_flow_style": False, "sort_keys": False, "allow_unicode": True, **options}
    )
    return text


def compose(text: str) -> tuple[t.Any, t.Any]:
    """Return the root of the tree of nodes and its plain value. Both are None for an empty text. Raise YamlTextError."""
    try:
        _check_size(text)
        loader = go_loader()(text)
        node = loader.get_single_node()
        return node, (None if node is None else loader.construct_document(node))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise YamlTextError(f"{place}{getattr(error, 'problem', None) or error}") from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise YamlTextError(f"it cannot be read: {error}") from None


def _check_size(text: str) -> None:
    """Raise YamlTextError for a document that is too deep, or too large with the parts that aliases repeat."""
    sizes: dict[str, int] = {}  # the number of values below each anchor
    open_parts: list[tuple[str, int]] = []  # the anchor of each list or mapping that is not complete, and the number of values before it
    count = 0
    for event in yaml.parse(text, Loader=go_loader()):
        if isinstance(event, yaml.CollectionStartEvent):
            open_parts.append((event.anchor, count))
            count += 1
            if len(open_parts) > MAX_LEVELS:
                raise YamlTextError("it has too many levels of lists and mappings")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_parts.pop()
            sizes[anchor] = count - before
        elif isinstance(event, yaml.AliasEvent):
            count += sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.ScalarEvent):
            count += 1
        if count > MAX_VALUES:
            raise YamlTextError(f"it has more than {MAX_VALUES} values with those that aliases repeat")
