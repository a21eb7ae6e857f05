# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Mistakes in the variables of the rebalance playbook, found before anything is done. Pure."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping
from difflib import get_close_matches

from ..spread.options import MINIMA
from ..spread.restart_plan import STRATEGIES
from .text_map import MIN_WIDTH

PREFIX = "rebalance_"
NUMBERS = {
    "cooldown": MINIMA["cooldown"],
    "map_width": MIN_WIDTH,
    "max_attempts": MINIMA["max_attempts"],
    "max_parallel": MINIMA["max_parallel"],
    "max_skew": MINIMA["max_skew"],
    "min_ready_nodes": MINIMA["min_ready_nodes"],
    "wait_timeout": MINIMA["wait_timeout"],
}
"""The least value of each variable that is a whole number."""

MAY_BE_EMPTY = ("max_skew",)
"""Numbers without a default: empty, as a survey leaves them, counts as unset."""

BOOLEANS = ("include_healthy", "plan_only")
WORDS_OF_BOOLEANS = ("true", "yes", "on", "1", "false", "no", "off", "0")
OTHERS = (
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
)
CHOICES = {"strategy": STRATEGIES}
KNOWN = tuple(sorted(PREFIX + name for name in (*NUMBERS, *BOOLEANS, *CHOICES, *OTHERS)))


def wrong_variables(given: Mapping[str, t.Any]) -> list[str]:
    """One sentence for each mistake in the ``rebalance_*`` variables of one host, given with their values."""
    found = []
    unknown = [name for name in sorted(given) if name not in KNOWN]
    for name in unknown:
        close = get_close_matches(name[len(PREFIX) :], (known[len(PREFIX) :] for known in KNOWN), n=1)
        found.append(f"{name}: there is no such variable" + (f"; perhaps {PREFIX}{close[0]} was meant" if close else ""))
    if unknown:
        found.append(f"The variables are {', '.join(KNOWN)}")
    for name, minimum in NUMBERS.items():
        if PREFIX + name in given:
            found += _about_number(PREFIX + name, given[PREFIX + name], minimum, may_be_empty=name in MAY_BE_EMPTY)
    for name in BOOLEANS:
        if PREFIX + name in given and str(given[PREFIX + name]).lower() not in WORDS_OF_BOOLEANS:
            found.append(f"{PREFIX + name}: {given[PREFIX + name]!r} is neither true nor false")
    for name, choices in CHOICES.items():
        if given.get(PREFIX + name, choices[0]) not in choices:
            found.append(f"{PREFIX + name}: {given[PREFIX + name]!r} is none of {', '.join(choices)}")
    return found


def _about_number(name: str, value: t.Any, minimum: int, *, may_be_empty: bool) -> list[str]:
    text = "" if value is None else str(value).strip()
    if may_be_empty and not text:
        return []
    if isinstance(value, bool) or not re.fullmatch(r"[+-]?\d+", text):
        return [f"{name}: {text!r} is not a whole number; it must be at least {minimum}"]
    return [f"{name}: {text} is too small; it must be at least {minimum}"] if int(text) < minimum else []
