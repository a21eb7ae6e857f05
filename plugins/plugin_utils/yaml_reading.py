# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""YAML and JSON texts as kube-scheduler reads them (YAML 1.1 with Go's numbers, without dates), and new texts for it."""

from __future__ import annotations

import re

import yaml

MAX_LEVELS = 100
"""Levels of lists and mappings in a document. A deeper one is refused before Python's own limit is reached."""
MAX_VALUES = 100_000
"""Values in a document, with those that aliases repeat. A short text with aliases of aliases may have any number."""

_GO_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_GO_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*|0)")
_TYPES = {"tag:yaml.org,2002:float": _GO_FLOAT, "tag:yaml.org,2002:int": _GO_INTEGER}
_OTHERS = ("bool", "null", "merge")
_GO_SHORT_BOOL = re.compile(r"[yYnN]")
"""Go's library reads them as true and false, and PyYAML as texts."""
_LONG_LINE = 10**6


class YamlTextError(Exception):
    """A text is not one YAML document with plain values. The message has the place."""


class _Loader(yaml.SafeLoader):
    """A loader with the types of Go's library."""

    bool_values = yaml.SafeLoader.bool_values | {"y": True, "n": False}

    def construct_mapping(self, node, deep=False):
        """Return a mapping. Raise ConstructorError for a key that is there twice."""
        seen = set()
        for key_node, _value in node.value:
            if key_node.tag != "tag:yaml.org,2002:merge":
                key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
                if key is None:
                    raise yaml.constructor.ConstructorError(None, None, "a list or a mapping is no key", key_node.start_mark)
                if key in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"the key {key} is there twice", key_node.start_mark)
                seen.add(key)
        return super().construct_mapping(node, deep=deep)

    def construct_go_integer(self, node):
        """Return a whole number. 0o17 and 017 are octal."""
        text = node.value.replace("_", "")
        sign, digits = (-1, text[1:]) if text[:1] == "-" else (1, text.lstrip("+"))
        if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
            digits = f"0o{digits[1:]}"
        return sign * int(digits, 0)

    def construct_go_float(self, node):
        """Return a number with a fraction or an exponent."""
        text = node.value.lower()
        return float(text.replace(".", "", 1) if text.endswith(("inf", "nan")) else text)


_Loader.yaml_implicit_resolvers = {}
for _first, _resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items():
    for _tag, _pattern in _resolvers:
        if _tag.rpartition(":")[2] in _OTHERS:
            _Loader.add_implicit_resolver(_tag, _pattern, [_first])
# An integer is also a Go float, so it comes first.
for _tag in reversed(list(_TYPES)):
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_TYPES[_tag].pattern})\Z"), list("-+.0123456789"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(rf"(?:{_GO_SHORT_BOOL.pattern})\Z"), list("yYnN"))
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_go_integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.construct_go_float)


class _Dumper(yaml.SafeDumper):
    """A dumper without aliases, which quotes texts that Go's library would read as numbers or as true and false."""

    def ignore_aliases(self, _data):
        """Write equal parts again."""
        return True


def _represent_text(dumper, text):
    quoted = any(pattern.fullmatch(text) for pattern in (_GO_FLOAT, _GO_INTEGER, _GO_SHORT_BOOL))
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if quoted else None)


_Dumper.add_representer(str, _represent_text)


def compose(text):
    """Return the root of the tree of nodes and its plain value. Both are None for an empty text. Raise YamlTextError."""
    try:
        _check_size(text)
        loader = _Loader(text)
        node = loader.get_single_node()
        return node, (None if node is None else loader.construct_document(node))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise YamlTextError(f"{place}{getattr(error, 'problem', None) or error}") from None
    except (ValueError, OverflowError, RecursionError) as error:
        raise YamlTextError(f"it cannot be read: {error}") from None


def has_aliases(text):
    """Return whether a document has aliases, so that a part of it has two places."""
    return any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=_Loader))


def render(value):
    """Return the value as a YAML text in block style, without a final line break."""
    options = {"default_flow_style": False, "sort_keys": False, "allow_unicode": True, "width": _LONG_LINE}
    return yaml.dump(value, Dumper=_Dumper, **options).removesuffix("\n").removesuffix("\n...")


def render_flow(value):
    """Return the value as a YAML text in one line."""
    return yaml.dump(value, Dumper=_Dumper, default_flow_style=True, sort_keys=False, width=_LONG_LINE).strip().removesuffix("\n...")


def _check_size(text):
    """Raise YamlTextError for a document that is too deep, or too large with the parts that aliases repeat."""
    sizes = {}  # the number of values below each anchor
    open_parts = []  # the anchor of each list or mapping that is not complete, and the number of values before it
    count = 0
    for event in yaml.parse(text, Loader=_Loader):
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
