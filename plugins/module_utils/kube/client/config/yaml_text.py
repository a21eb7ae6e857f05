# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""YAML texts: kubeconfigs, and the settings of services. Only this file of module_utils imports PyYAML."""

from __future__ import annotations

import typing as t

from .files import ConnectionSettingsError

if t.TYPE_CHECKING:
    yaml: t.Any = None
    YAML_IMPORT_ERROR: t.Optional[str] = None
else:
    try:
        import yaml

        YAML_IMPORT_ERROR = None
    except ImportError as import_error:
        YAML_IMPORT_ERROR = str(import_error)

        class yaml:
            """Placeholder for the names used below."""

            class YAMLError(Exception):
                """Placeholder for yaml's base error."""


MAX_LEVELS = 200
"""Levels of lists and mappings in a document. PyYAML's parser in C calls itself for each level, and without a limit ends the process."""


class TooDeepError(ConnectionSettingsError):
    """A document has more than MAX_LEVELS levels of lists and mappings."""

    def __init__(self) -> None:
        super().__init__("it has too many levels of lists and mappings")


def load_yaml(data: bytes) -> t.Any:
    """Return the content of a YAML document.

    Raises ConnectionSettingsError with the place of the error and without text of the document, and TooDeepError.
    """
    return _read(data, yaml.load)


def compose_yaml(data: bytes) -> t.Any:
    """Return the root of the tree of nodes of a YAML document, or None for an empty one. An alias is the same node as its anchor.

    Raises ConnectionSettingsError as ``load_yaml``.
    """
    return _read(data, yaml.compose)


def _read(data: bytes, read: t.Callable[..., t.Any]) -> t.Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        text = data.decode("utf-8")
        _check_levels(text, loader)
        return read(text, Loader=loader)
    except TooDeepError:
        raise
    except UnicodeDecodeError:
        raise ConnectionSettingsError("it is not a YAML text in UTF-8") from None
    # PyYAML has no error of its own for 2024-13-45, !!int "", !!bool x and !!timestamp x.
    except (ValueError, LookupError, AttributeError, OverflowError, RecursionError):
        raise ConnectionSettingsError("it has a value that YAML does not allow, such as a date that does not exist") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f": line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise ConnectionSettingsError(f"it is not a YAML document{place}") from None


def _check_levels(text: str, loader: t.Any) -> None:
    """Raise TooDeepError if there are too many levels. The events of a document are read without recursion."""
    levels = 0
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionStartEvent):
            levels += 1
            if levels > MAX_LEVELS:
                raise TooDeepError
        elif isinstance(event, yaml.CollectionEndEvent):
            levels -= 1
