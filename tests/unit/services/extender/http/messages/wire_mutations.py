# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes of a body that keep it JSON. Changes of single bytes make most bodies unreadable."""

from __future__ import annotations

import copy
import json
import random
import typing as t

KEYS = ("Pod", "Nodes", "NodeNames", "NodeNameToVictims", "NodeNameToMetaVictims", "Pods", "NumPDBViolations", "UID", "metadata", "items")
VALUES: tuple[t.Any, ...] = (None, True, 0, -1, 2**64, 1.5, "", "a", "\u0000", "ſ", "1Gi", [], [None], {}, {"metadata": {"name": "a"}})
CASES = (str.lower, str.upper, str.swapcase, str.title)
MOST_CHANGES = 3


def changed_body(body: bytes, other: bytes, chance: random.Random) -> bytes | None:
    """Return the body with a few changes, of which some come from another body. None if the body is no JSON object or list."""
    try:
        value, source = json.loads(body), json.loads(other)
    except (ValueError, RecursionError):
        return None
    places = _places(value)
    if not places:
        return None
    for _ in range(chance.randint(1, MOST_CHANGES)):
        _change(chance.choice(places), source, chance)
    try:
        return json.dumps(value).encode()
    except (ValueError, RecursionError):
        return None


def _change(place: t.Any, source: t.Any, chance: random.Random) -> None:
    """Change one object or list: remove a part, replace it, rename it, or add one."""
    key = chance.choice(list(place) if isinstance(place, dict) else range(len(place))) if place else None
    action = chance.choice(("remove", "replace", "rename", "add"))
    if action == "add" or key is None:
        _add(place, _value(source, chance), chance)
    elif action == "remove":
        del place[key]
    elif action == "rename" and isinstance(place, dict):
        place[chance.choice((*(case(key) for case in CASES), *KEYS))] = place.pop(key)
    else:
        place[key] = _value(source, chance)


def _add(place: t.Any, value: t.Any, chance: random.Random) -> None:
    if isinstance(place, dict):
        place[chance.choice(KEYS)] = value
    else:
        place.append(value)


def _value(source: t.Any, chance: random.Random) -> t.Any:
    places = _places(source)
    return copy.deepcopy(chance.choice(places) if places and chance.random() < 0.5 else chance.choice(VALUES))


def _places(value: t.Any) -> list[t.Any]:
    """Return all objects and lists in a value."""
    found, rest = [], [value]
    while rest:
        one = rest.pop()
        if isinstance(one, (dict, list)):
            found.append(one)
            rest.extend(one.values() if isinstance(one, dict) else one)
    return found
