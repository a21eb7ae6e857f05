# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The options of the spread check, and the validation of options that it shares with the restart."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Mapping, Sequence

from ..model.api.node import Node
from ..model.api.workload import WORKLOAD_KINDS
from ..model.codec import Struct
from ..model.option_values import OptionError, check_minima, seconds_of
from ..model.scheduler_config_source import check_scheduler_config
from ..model.values.shown import shown_value
from ..model.values.validation import NAMESPACE_FORM, is_namespace_name, is_qualified_name, missing_namespaces_message
from ..model.well_known import HOSTNAME

DEFAULT_COOLDOWN_S = 600
DEFAULT_MAX_ATTEMPTS = 3


MINIMA = {
    "cooldown": 0,
    "max_attempts": 1,
    "max_skew": 1,
    "min_ready_nodes": 1,
}
"""The minimum of each numeric option of the check."""

MAX_LABELS_NAMED = 5
NAMESPACE_ANNOTATIONS = (("kube-scheduling.onprem/spread", "allow"), ("collectdeployments", "allow"))
"""By default a namespace must have one of these annotations. Messages name the first one. The original CronJob has the second one."""


def parse_annotation_selector(text: t.Optional[str]) -> tuple[tuple[str, str], ...]:
    """Return the one pair of ``key=value``, by default those of NAMESPACE_ANNOTATIONS.

    An empty text has none, which means any namespace. Raise OptionError for another form.
    """
    if text is None:
        return NAMESPACE_ANNOTATIONS
    if not text:
        return ()
    key, equals, value = text.partition("=")
    if not equals or not is_qualified_name(key):
        example = "=".join(NAMESPACE_ANNOTATIONS[0])
        raise OptionError(f"namespace_annotation: {shown_value(text)} is not key=value with a valid annotation key, such as {example}")
    return ((key, value),)


def check_topology_keys(keys: Sequence[str]) -> tuple[str, ...]:
    """Return the keys without repetitions. Raise OptionError if the list is empty or an entry is not a label key."""
    if not keys:
        raise OptionError("topology_keys: is empty; name at least one node label, such as kubernetes.io/hostname")
    for key in keys:
        if not is_qualified_name(key):
            raise OptionError(f"topology_keys: {shown_value(key)} is not a label key, such as topology.kubernetes.io/zone")
    return tuple(dict.fromkeys(keys))


def check_labels_exist(keys: Iterable[str], nodes: Iterable[Node]) -> None:
    """Raise OptionError for a topology key that no node has as a label.

    The key is misspelt, or the nodes are not labelled yet. Without nodes, every key passes.
    """
    labels = [node.labels for node in nodes]
    for key in keys if labels else ():
        if not any(key in have for have in labels):
            known = {name for have in labels for name in have}
            raise OptionError(f"topology_keys: no node has the label {key}; {_similar_labels(key, known)}")


def _similar_labels(key: str, known: Iterable[str]) -> str:
    """Return a text with labels that may have been meant, by spelling or by the part after the slash."""
    names = sorted(known)
    last = key.rpartition("/")[2]
    from difflib import get_close_matches  # only the error case needs it

    similar = dict.fromkeys([*get_close_matches(key, names), *(name for name in names if name.rpartition("/")[2] == last)])
    found = ", ".join(list(similar)[:MAX_LABELS_NAMED])
    return f"similar ones that nodes have: {found}" if found else "label the nodes first, or see `kubectl get nodes --show-labels`"


def check_namespaces(names: t.Optional[Sequence[str]]) -> t.Optional[tuple[str, ...]]:
    """Return the namespaces without repetitions.

    None means all namespaces. Raise OptionError for an empty list, which would select none, and for an invalid name.
    """
    if names is None:
        return None
    if not names:
        raise OptionError("namespaces: is empty; name at least one namespace, or leave the option out to check all of them")
    return check_namespace_names(names, "namespaces")


def check_namespace_names(names: Iterable[str], option: str) -> tuple[str, ...]:
    """Return the names without repetitions. Raise OptionError for an invalid name."""
    for name in names:
        if not is_namespace_name(name):
            raise OptionError(f"{option}: {shown_value(name)} is not a namespace name ({NAMESPACE_FORM})")
    return tuple(dict.fromkeys(names))


def check_missing_namespaces(wanted: t.Optional[Sequence[str]], existing: Iterable[str], unreadable: Iterable[str]) -> None:
    """Raise OptionError for namespaces that the option names and that do not exist."""
    known = {*existing, *unreadable}
    missing = sorted(set(wanted or ()) - known)
    if missing:
        raise OptionError(missing_namespaces_message(missing, known))


def option_times(params: Mapping[str, t.Any], defaults: Mapping[str, int]) -> dict[str, int]:
    """Return the options of ``defaults`` in whole seconds. None (unset) gets the default. Raise OptionError for an invalid time."""
    return {name: default if params.get(name) is None else seconds_of(params, name) for name, default in defaults.items()}


class CheckOptions(Struct, frozen=True):
    """The options of k8s_spread_check.

    Namespaces in ``exclude_namespaces`` are not checked, and the others must match every one of ``namespace_label_selectors``. A namespace
    must have one of the (key, value) pairs in ``namespace_annotations``, if there are any. A workload must match every one of
    ``label_selectors``. ``cooldown_s`` and ``max_attempts`` must equal the later options of k8s_rollout_restart.
    ``scheduler_config`` names the configurations of the cluster's schedulers. ``add_constraints``: the predictions are for restarts that
    add spread constraints to the pod template.
    """

    namespaces: t.Optional[Sequence[str]] = None
    namespace_annotations: Sequence[tuple[str, str]] = NAMESPACE_ANNOTATIONS
    exclude_namespaces: Sequence[str] = ()
    namespace_label_selectors: Sequence[str] = ()
    label_selectors: Sequence[str] = ()
    kinds: Sequence[str] = WORKLOAD_KINDS
    topology_keys: Sequence[str] = (HOSTNAME,)
    max_skew: t.Optional[int] = None
    min_ready_nodes: int = 2
    predict: bool = True
    cooldown_s: int = DEFAULT_COOLDOWN_S
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    scheduler_config: Sequence[str] = ()
    add_constraints: bool = False


def _label_requirements(params: Mapping[str, t.Any], name: str) -> tuple[str, ...]:
    if params.get(name) is None:
        return ()
    from ..model.selectors.selector_text import label_requirements  # most checks have no selector

    return label_requirements(params, name)


def _kinds(kinds: t.Optional[Sequence[str]]) -> tuple[str, ...]:
    if kinds is not None and not kinds:
        raise OptionError(f"kinds: is empty; name at least one of {', '.join(WORKLOAD_KINDS)}, or leave the option out to check both")
    return WORKLOAD_KINDS if kinds is None else tuple(kinds)


def check_options(params: Mapping[str, t.Any]) -> CheckOptions:
    """Return CheckOptions from the module's options. Raise OptionError that names the option."""
    times = option_times(params, {"cooldown": DEFAULT_COOLDOWN_S})
    check_minima({**params, **times}, MINIMA)
    return CheckOptions(
        namespaces=check_namespaces(params.get("namespaces")),
        namespace_annotations=parse_annotation_selector(params.get("namespace_annotation")),
        exclude_namespaces=check_namespace_names(params.get("exclude_namespaces") or (), "exclude_namespaces"),
        namespace_label_selectors=_label_requirements(params, "namespace_label_selectors"),
        label_selectors=_label_requirements(params, "label_selectors"),
        kinds=_kinds(params.get("kinds")),
        topology_keys=check_topology_keys(params["topology_keys"]),
        max_skew=params.get("max_skew"),
        min_ready_nodes=params["min_ready_nodes"],
        predict=params["predict"],
        cooldown_s=times["cooldown"],
        max_attempts=params["max_attempts"],
        scheduler_config=check_scheduler_config(params),
    )
