# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Label selectors as text, in the syntax of ``kubectl --selector`` (apimachinery: pkg/labels/selector.go)."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterable, Mapping

from ..option_values import OptionError
from ..values.shown import shown_value
from ..values.validation import is_label_value, is_qualified_name

_KEY = r"(?P<key>[^\s=!(),<>]+)"
_FORMS = (
    re.compile(rf"(?P<operator>!?)\s*{_KEY}"),
    re.compile(rf"{_KEY}\s*(?P<operator>==|!=|=|<|>)\s*(?P<values>[^\s=!(),<>]*)"),
    re.compile(rf"{_KEY}\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)"),
)
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^()]*\))")
_SYNTAX = "write it as kubectl --selector, such as app=web, app!=web, 'app in (web,api)', app or !app"


class _Requirement(t.NamedTuple):
    key: str
    operator: str
    values: tuple[str, ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        if self.operator in ("!=", "notin"):
            return value not in self.values
        if self.operator == "!" or value is None:
            return self.operator == "!" and value is None
        if self.operator in ("<", ">"):
            return _is_beyond(value, self.operator, int(self.values[0]))
        return not self.operator or value in self.values


def label_requirements(params: Mapping[str, t.Any], name: str) -> tuple[str, ...]:
    """Return the requirements of the option ``name``, a list of selectors. Every one must match.

    Ansible splits a text at its commas, also inside parentheses, so the parts are joined first. An empty text selects everything. Raise
    OptionError with the first invalid requirement.
    """
    check_not_empty(params, name)
    text = ",".join(params.get(name) or ())
    found = tuple(part.strip() for part in _COMMA_OUTSIDE_PARENTHESES.split(text)) if text.strip() else ()
    for requirement in found:
        _parse(requirement, name)
    return found


def check_not_empty(params: Mapping[str, t.Any], name: str) -> None:
    """Raise OptionError if the option ``name`` is an empty list. It is probably the result of a template that found nothing."""
    if params.get(name) is not None and not params[name]:
        raise OptionError(f"{name}: is empty; write at least one label selector, or leave the option out to select all")


def match_labels(requirements: Iterable[str], labels: t.Optional[Mapping[str, str]]) -> bool:
    """Return whether the labels match every one of the requirements that ``label_requirements`` returned."""
    return all(_parse(requirement).matches(labels or {}) for requirement in requirements)


def _parse(text: str, option: str = "label selector") -> _Requirement:
    found = next(filter(None, (form.fullmatch(text) for form in _FORMS)), None)
    if found is None:
        raise OptionError(f"{option}: {shown_value(text)} is not a label selector; {_SYNTAX}")
    given = found.groupdict().get("values")
    values = () if given is None else tuple(value.strip() for value in given.split(","))
    requirement = _Requirement(found["key"], found["operator"], values)
    if not is_qualified_name(requirement.key):
        raise OptionError(
            f"{option}: {shown_value(requirement.key)} in {shown_value(text)} is not a label key, such as app or example.com/app"
        )
    for value in values:
        if not is_label_value(value):
            shown = f"{shown_value(value)} in {shown_value(text)}"
            raise OptionError(f"{option}: {shown} is not a label value: at most 63 letters, digits, '-', '_' and '.'")
    if requirement.operator in ("<", ">") and not re.fullmatch(r"[0-9]{1,18}", values[0], re.ASCII):
        raise OptionError(f"{option}: {shown_value(values[0])} in {shown_value(text)} is not a whole number")
    return requirement


def _is_beyond(value: str, operator: str, bound: int) -> bool:
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", value, re.ASCII):
        return False
    return int(value) > bound if operator == ">" else int(value) < bound
