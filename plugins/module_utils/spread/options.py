# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The options of the spread check, and the checks of options that it shares with the restart."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ..model.api.node import Node
from ..model.codec import Struct
from ..model.values.validation import NAMESPACE_FORM, is_namespace_name, is_qualified_name, missing_namespaces_message
from ..model.well_known import HOSTNAME

DEFAULT_COOLDOWN_S = 600
DEFAULT_MAX_ATTEMPTS = 3


KINDS = ("Deployment", "StatefulSet")

MINIMA = {
    "cooldown": 0,
    "max_attempts": 1,
    "max_parallel": 1,
    "max_skew": 1,
    "min_ready_nodes": 1,
    "wait_sleep": 1,
    "wait_timeout": 1,
}
"""The least value of each number among the options."""

MOST_LABELS_NAMED = 5


class OptionError(ValueError):
    """An option has a value that cannot be used."""


def parse_annotation_selector(text: str) -> t.Optional[tuple[str, str]]:
    """``key=value`` as a pair; an empty text means that no annotation is asked for."""
    if not text:
        return None
    key, equals, value = text.partition("=")
    if not equals or not is_qualified_name(key):
        raise OptionError(f"namespace_annotation: {text!r} is not key=value with a valid annotation key, such as collectdeployments=allow")
    return key, value


def check_topology_keys(keys: Sequence[str]) -> tuple[str, ...]:
    """The keys without repetitions; each must be a label key, and there must be one."""
    if not keys:
        raise OptionError("topology_keys: is empty; name at least one node label, such as kubernetes.io/hostname")
    for key in keys:
        if not is_qualified_name(key):
            raise OptionError(f"topology_keys: {key!r} is not a label key, such as topology.kubernetes.io/zone")
    return tuple(dict.fromkeys(keys))


def check_labels_exist(keys: Iterable[str], nodes: Iterable[Node]) -> None:
    """Refuse a topology key that no node has as a label: it is misspelt, or the nodes are not labelled yet. Without nodes all pass."""
    labels = [node.labels for node in nodes]
    for key in keys if labels else ():
        if not any(key in have for have in labels):
            known = {name for have in labels for name in have}
            raise OptionError(f"topology_keys: no node has the label {key}; {_similar_labels(key, known)}")


def _similar_labels(key: str, known: Iterable[str]) -> str:
    """Labels that may have been meant, by spelling or by the part after the slash."""
    names = sorted(known)
    last = key.rpartition("/")[2]
    from difflib import get_close_matches  # only an error needs it

    similar = dict.fromkeys([*get_close_matches(key, names), *(name for name in names if name.rpartition("/")[2] == last)])
    found = ", ".join(list(similar)[:MOST_LABELS_NAMED])
    return f"similar ones that nodes have: {found}" if found else "label the nodes first, or see `kubectl get nodes --show-labels`"


def check_namespaces(names: t.Optional[Sequence[str]]) -> t.Optional[tuple[str, ...]]:
    """The namespaces without repetitions; None means all, an empty list is refused because it would look at none."""
    if names is None:
        return None
    if not names:
        raise OptionError("namespaces: is empty; name at least one namespace, or leave the option out to look at all of them")
    for name in names:
        if not is_namespace_name(name):
            raise OptionError(f"namespaces: {name!r} is not a namespace name ({NAMESPACE_FORM})")
    return tuple(dict.fromkeys(names))


def check_missing_namespaces(wanted: t.Optional[Sequence[str]], existing: Iterable[str], unreadable: Iterable[str]) -> None:
    """Refuse namespaces that were asked for by name and do not exist."""
    missing = sorted(set(wanted or ()) - set(existing) - set(unreadable))
    if missing:
        raise OptionError(missing_namespaces_message(missing))


def check_minima(params: Mapping[str, t.Any]) -> None:
    """Refuse numbers below their minimum; None (unset) passes."""
    for name, minimum in MINIMA.items():
        value = params.get(name)
        if value is not None and value < minimum:
            raise OptionError(f"{name}: {value} is too small; it must be at least {minimum}")


class CheckOptions(Struct, frozen=True):
    """What to look at and how to judge it; the options of k8s_spread_check.

    ``namespace_annotation`` is a (key, value) that a namespace must carry, or None for any namespace. ``cooldown_s`` and ``max_attempts``:
    what k8s_rollout_restart will be given.
    """

    namespaces: t.Optional[Sequence[str]] = None
    namespace_annotation: t.Optional[tuple[str, str]] = ("collectdeployments", "allow")
    kinds: Sequence[str] = ("Deployment", "StatefulSet")
    topology_keys: Sequence[str] = (HOSTNAME,)
    max_skew: t.Optional[int] = None
    min_ready_nodes: int = 2
    predict: bool = True
    cooldown_s: int = DEFAULT_COOLDOWN_S
    max_attempts: int = DEFAULT_MAX_ATTEMPTS


def check_options(params: Mapping[str, t.Any]) -> CheckOptions:
    """CheckOptions from the module's options; raises OptionError that names the option."""
    check_minima(params)
    return CheckOptions(
        namespaces=check_namespaces(params.get("namespaces")),
        namespace_annotation=parse_annotation_selector(params["namespace_annotation"]),
        kinds=tuple(params.get("kinds") or KINDS),
        topology_keys=check_topology_keys(params["topology_keys"]),
        max_skew=params.get("max_skew"),
        min_ready_nodes=params["min_ready_nodes"],
        predict=params["predict"],
        cooldown_s=params["cooldown"],
        max_attempts=params["max_attempts"],
    )
