# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Check the variables of the playbooks before the run starts. Pure."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from difflib import get_close_matches

from ..rescue.options import HOLDS, HONORED, STATES
from ..rescue.options import MINIMA as RESCUE_MINIMA
from ..spread.options import MINIMA
from ..spread.restart.options import STRATEGIES
from .text_map import MIN_WIDTH

LEAST = {"grace_period": "1, or 0 with {prefix}force"}
"""The minima, as texts, of numbers whose minimum depends on another variable."""
WORDS_OF_BOOLEANS = ("true", "yes", "on", "1", "false", "no", "off", "0")


class Variables(t.NamedTuple):
    """The variables of one playbook, without their prefix.

    ``numbers``: integers with their minimum. Those in ``may_be_empty`` have no default. An empty text, as from a survey, counts as unset.
    ``choices``: the allowed words, the default first.
    """

    prefix: str
    numbers: Mapping[str, int]
    may_be_empty: tuple[str, ...]
    booleans: tuple[str, ...]
    choices: Mapping[str, tuple[str, ...]]
    others: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Return all names, with the prefix."""
        return tuple(sorted(self.prefix + name for name in (*self.numbers, *self.booleans, *self.choices, *self.others)))


REBALANCE = Variables(
    prefix="rebalance_",
    numbers={
        "cooldown": MINIMA["cooldown"],
        "map_width": MIN_WIDTH,
        "max_attempts": MINIMA["max_attempts"],
        "max_parallel": MINIMA["max_parallel"],
        "max_skew": MINIMA["max_skew"],
        "min_ready_nodes": MINIMA["min_ready_nodes"],
        "wait_timeout": MINIMA["wait_timeout"],
    },
    may_be_empty=("max_skew",),
    booleans=("include_healthy", "plan_only"),
    choices={"strategy": STRATEGIES},
    others=(
        "context",
        "hosts",
        "kinds",
        "kubeconfig",
        "label_selector",
        "map_path",
        "namespace_annotation",
        "namespaces",
        "report_path",
        "topology_keys",
    ),
)
RESCUE = Variables(
    prefix="rescue_",
    numbers=RESCUE_MINIMA,
    may_be_empty=("max_victims",),
    booleans=(
        "allow_bare_pods",
        "allow_equal_priority",
        "allow_local_storage",
        "allow_short_grace",
        "force",
        "plan_only",
    ),
    choices={"hold": HOLDS, "honor_critical_annotation": HONORED, "state": STATES},
    others=("context", "hold_taint_key", "hosts", "kubeconfig", "label_selector", "name", "namespaces"),
)
PLAYBOOKS = {"rebalance": REBALANCE, "rescue": RESCUE}


def wrong_variables(given: Mapping[str, t.Any], of: Variables = REBALANCE) -> list[str]:
    """Return one sentence for each mistake in a playbook's variables of one host. ``given`` has their values by name."""
    prefix = of.prefix
    found = _unknown_names(given, of)
    for name, minimum in of.numbers.items():
        if prefix + name in given:
            least = LEAST.get(name, "").format(prefix=prefix) or str(minimum)
            found += _about_number(prefix + name, given[prefix + name], minimum, least, may_be_empty=name in of.may_be_empty)
    for name in of.booleans:
        if prefix + name in given and str(given[prefix + name]).lower() not in WORDS_OF_BOOLEANS:
            found.append(f"{prefix + name}: {given[prefix + name]!r} is neither true nor false")
    for name, choices in of.choices.items():
        if given.get(prefix + name, choices[0]) not in choices:
            found.append(f"{prefix + name}: {given[prefix + name]!r} is none of {', '.join(choices)}")
    return found


def _unknown_names(given: Mapping[str, t.Any], of: Variables) -> list[str]:
    found = []
    known = [name[len(of.prefix) :] for name in of.names]
    unknown = [name for name in sorted(given) if name not in of.names]
    for name in unknown:
        close = get_close_matches(name[len(of.prefix) :], known, n=1)
        found.append(f"{name}: there is no such variable" + (f"; perhaps {of.prefix}{close[0]} was meant" if close else ""))
    return [*found, f"The variables are {', '.join(of.names)}"] if unknown else found


def _about_number(name: str, value: t.Any, minimum: int, least: str, *, may_be_empty: bool) -> list[str]:
    text = "" if value is None else str(value).strip()
    if may_be_empty and not text:
        return []
    if isinstance(value, bool) or not re.fullmatch(r"[+-]?\d+", text):
        return [f"{name}: {text!r} is not a whole number; it must be at least {least}"]
    return [f"{name}: {text} is too small; it must be at least {least}"] if int(text) < minimum else []
