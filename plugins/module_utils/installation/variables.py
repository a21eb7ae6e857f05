# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The mistakes in the variables of a role or a playbook, a sentence for each.

An argument spec is a dictionary of options by the names of variables. ansible-core compares types and choices, so the caller passes its
check.
"""

from __future__ import annotations

import json
import re
import typing as t
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ..model.values.nearest import nearest_name

ArgumentSpec = Mapping[str, Mapping[str, t.Any]]
CheckValue = Callable[[str, Mapping[str, t.Any], t.Any], "tuple[t.Any, list[str]]"]
"""Takes a name, its option and its value. Returns the value with the type of the option, and the errors."""

CONTAINERS: Mapping[t.Any, tuple[type, str]] = {"list": (list, "list"), "dict": (dict, "dictionary")}
RESERVED = {
    "check_config": "the program would end after the check",
    "context": "the program has no kubeconfig of yours, and {prefix}context is the context of the role",
    "kubeconfig": "the program has no kubeconfig of yours, and {prefix}kubeconfig is the kubeconfig of the role",
}
"""Settings with which a program would not do its work in the cluster, and the reasons."""


@dataclass(frozen=True)
class VariableChecks:
    """The checks of variables in addition to their argument spec.

    ``prefix`` is a regular expression for the prefix that the names have in common. Lists in ``converted`` may be a text. The values of
    ``secret`` variables are not shown.
    """

    spec: ArgumentSpec
    prefix: str = ""
    minima: Mapping[str, int] = field(default_factory=dict)
    converted: Collection[str] = ()
    secret: Collection[str] = ()


class CheckedVariables(t.NamedTuple):
    """The values of all variables of a spec, the names of those that are wrong, and the mistakes.

    A variable that is unset or wrong has its default, or None.
    """

    values: dict[str, t.Any]
    wrong: set[str]
    mistakes: list[str]


def check_variables(given: Mapping[str, t.Any], checks: VariableChecks, check_value: CheckValue) -> CheckedVariables:
    """Compare the given variables with the argument spec."""
    values = {name: option.get("default") for name, option in checks.spec.items()}
    wrong: set[str] = set()
    mistakes = list(unknown_names([name for name in given if name not in checks.spec], checks.spec, checks.prefix))
    for name, option in checks.spec.items():
        if name not in given or is_unset(given[name], option):
            mistakes += [f"missing required arguments: {name}"] if option.get("required") else []
            continue
        value, errors = given[name], _shape_mistakes(name, given[name], option, checks)
        if not errors:
            value, errors = check_value(name, option, value)
        if name in checks.minima:
            errors += minimum_mistakes(name, given[name], checks.minima[name])
        if errors:
            wrong.add(name)
        else:
            values[name] = value
        mistakes += errors
    return CheckedVariables(values, wrong, mistakes)


def is_unset(value: t.Any, option: Mapping[str, t.Any]) -> bool:
    """Return whether a value means that the variable is not set, as an empty answer of a survey does."""
    has_default = option.get("default") is not None
    return (value is None and not has_default) or (
        isinstance(value, str) and not value and (not has_default or option.get("type") == "list")
    )


def _shape_mistakes(name: str, value: t.Any, option: Mapping[str, t.Any], checks: VariableChecks) -> list[str]:
    """Return the mistake of a value that ansible-core would change, such as a text in place of a list, or null."""
    container, word = CONTAINERS.get(option.get("type"), (object, ""))
    if name not in checks.converted and not isinstance(value, container):
        form = "{KEY: VALUE}" if "dict" in (option.get("type"), option.get("elements")) else "VALUE"
        shown = "" if name in checks.secret else f"{json.dumps(value)}, which is "
        form = f"[{form}]" if word == "list" else form
        return [f"{name} is {shown}no {word}: write {name}: {form} in a file, or give it to -e as JSON"]
    return [f"{name} is null: remove it, or give it a value"] if value is None else []


def unknown_names(names: Iterable[str], known: Collection[str], prefix: str = "") -> Iterator[str]:
    """Yield the sentences about unknown names: one for each name that is similar to a known one, and one for all others."""
    without_prefix = {re.sub(f"^{prefix}", "", name): name for name in known}
    others = []
    for name in names:
        near = nearest_name(re.sub(f"^{prefix}", "", name), without_prefix)
        if near:
            yield f"There is no variable {name}; the nearest is {without_prefix[near]}."
        else:
            others.append(name)
    if others:
        yield f"There is no variable {', '.join(others)}. The variables are {', '.join(sorted(known))}."


def minimum_mistakes(name: str, value: t.Any, minimum: int) -> list[str]:
    """Return the mistake of a number below its minimum. A text with another form, such as 30s, is none."""
    is_number = isinstance(value, (int, str)) and re.fullmatch(r"[+-]?[0-9]+", str(value))
    if isinstance(value, bool) or (is_number and int(value) < minimum):
        return [f"{name} is {value}: it must be a number, at least {minimum}"]
    return []


def file_mistakes(name: str, given: str, path: str, file: Mapping[str, t.Any], folder: Mapping[str, t.Any]) -> list[str]:
    """Return the mistake of an absolute path to which the run cannot write.

    ``file`` and ``folder`` are what ansible.builtin.stat returns for the path and for its folder.
    """
    if file.get("isdir"):
        return [f"{name} is {given}, which is a folder: name a file in it"]
    if not folder.get("exists"):
        return [f"{name} is {given}, and there is no folder {path.rpartition('/')[0] or '/'}: create it first"]
    can_be_written = (file if file.get("exists") else folder).get("writeable")
    return [] if can_be_written else [f"{name} is {given}, and {path} cannot be written: name another file"]


def reserved_settings(label: str, settings: Collection[str], prefix: str) -> list[str]:
    """Return a sentence for each setting of a program that its role decides."""
    found = {name: reason.format(prefix=prefix) for name, reason in RESERVED.items() if name in settings}
    return [f"{label} has {name}: remove it, because {reason}" for name, reason in found.items()]
