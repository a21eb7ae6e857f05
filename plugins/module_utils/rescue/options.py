# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The options of a rescue, for k8s_critical_rescue and for the rescuer, with the names that both use."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..model.option_values import OptionError, check_minima, seconds_of
from ..model.scheduler_config_source import check_scheduler_config
from ..model.selectors.selector_text import check_not_empty
from ..model.snapshot import ClusterSnapshot
from ..model.values.shown import shown_value
from ..model.values.validation import NAMESPACE_FORM, is_namespace_name, is_qualified_name, missing_namespaces_message
from ..state.rescue_attempts import UNDER_WAY_FOR_S

AUTO, TAINT, NONE = "auto", "taint", "none"
HOLDS = (AUTO, TAINT, NONE)
KUBE_SYSTEM, ALL = "kube-system", "all"
HONORED = (KUBE_SYSTEM, ALL, NONE)
"""The namespaces in which the annotation makes pods critical: kube-system, all of ``namespaces``, or none."""
STATE_RESCUED, STATE_RELEASED = "rescued", "released"
DEFAULT_TAINT_KEY = "CriticalAddonsOnly"
MINIMA: dict[str, int] = {
    "evict_timeout": 0,
    "grace_period": 0,
    "max_attempts": 1,
    "max_victims": 1,
    "priority_threshold": -(2**31),
    "wait_timeout": 1,
    "settle_time": 0,
}
"""The lowest value of each option that is an integer."""

TIMES = ("evict_timeout", "grace_period", "settle_time", "wait_timeout")
"""The options that are times. Their fields of RescueOptions end with ``_s``."""


@dataclass(frozen=True)
class RescueOptions:
    """The pods that are rescued, and what a rescue may do. The fields have the names of the options; times are whole seconds.

    ``grace_period_s`` is the maximum grace period of victims: at least 1, and 0 only with ``allow_zero_grace``. ``max_victims`` is the
    maximum number of victims for one pod; None means no maximum. ``settle_time_s`` is the time for the scheduler's own preemption before a
    rescue starts. ``scheduler_config`` names the configurations of the cluster's schedulers.
    """

    namespaces: tuple[str, ...] = ("kube-system",)
    priority_threshold: int = 2_000_000_000
    honor_critical_annotation: str = KUBE_SYSTEM
    grace_period_s: int = 30
    allow_zero_grace: bool = False
    max_victims: t.Optional[int] = None
    allow_equal_priority: bool = False
    allow_short_grace: bool = False
    allow_bare_pods: bool = False
    allow_local_storage: bool = False
    respect_windows: bool = False
    settle_time_s: int = 2
    hold: str = AUTO
    hold_taint_key: str = DEFAULT_TAINT_KEY
    wait_timeout_s: int = 600
    evict_timeout_s: int = 120
    max_attempts: int = 3
    scheduler_config: tuple[str, ...] = ()

    def after(self, evicted: int) -> RescueOptions:
        """Return the options with ``max_victims`` reduced by the number of pods that have been evicted for a pod already."""
        return self if self.max_victims is None or not evicted else replace(self, max_victims=max(0, self.max_victims - evicted))


@dataclass(frozen=True)
class RescueRequest:
    """The options of one run, with a further selection of pods.

    ``name`` and ``label_selectors`` select among the pods that the options select. A pod must match all selectors. ``wait``: wait until
    the pods are bound; otherwise the run ends when the rescues have begun. ``dry_run``: plan, send each request to the server as a dry run,
    and change nothing.
    """

    options: RescueOptions
    name: str = ""
    label_selectors: tuple[str, ...] = ()
    state: str = STATE_RESCUED
    wait: bool = True
    dry_run: bool = False

    @property
    def label_selector(self) -> str:
        """All label selectors as one, for the API server."""
        return ",".join(one for one in self.label_selectors if one)


def rescue_options(params: Mapping[str, t.Any]) -> RescueOptions:
    """Return RescueOptions from values by option names. Missing names and None get the default. Raise OptionError."""
    check_not_empty(params, "label_selectors")
    fields = {field.removesuffix("_s"): field for field in RescueOptions.__dataclass_fields__}
    known = {name: params[name] for name in fields if params.get(name) is not None}
    known.update({name: seconds_of(known, name) for name in TIMES if name in known})
    if "namespaces" in known:
        known["namespaces"] = tuple(dict.fromkeys(known["namespaces"]))
    known["scheduler_config"] = check_scheduler_config(known)
    options = RescueOptions(**{fields[name]: value for name, value in known.items()})
    _check(options)
    return options


def missing_namespaces(options: RescueOptions, snapshot: ClusterSnapshot) -> str:
    """Return a message about namespaces that do not exist. Return an empty text if all exist or namespaces may not be read."""
    known = {*snapshot.namespaces, *(one.metadata.name for one in snapshot.undecodable_of("Namespace"))}
    missing = [name for name in options.namespaces if name not in known]
    if not missing or any(entry.resource == "namespaces" for entry in snapshot.skipped):
        return ""
    return missing_namespaces_message(missing, known)


def _check(options: RescueOptions) -> None:
    if options.grace_period_s == 0 and not options.allow_zero_grace:
        raise OptionError("grace_period is 0, which ends pods without warning: set it to 1 or more, or set allow_zero_grace")
    values = {name: getattr(options, f"{name}_s" if name in TIMES else name) for name in MINIMA}
    check_minima(values, {**MINIMA, "grace_period": 0 if options.allow_zero_grace else 1})
    if options.wait_timeout_s + options.evict_timeout_s > UNDER_WAY_FOR_S:
        raise OptionError(
            f"wait_timeout is {options.wait_timeout_s} and evict_timeout is {options.evict_timeout_s}: together the maximum is "
            f"{UNDER_WAY_FOR_S} seconds, because an attempt counts as failed after that time"
        )
    if not options.namespaces or not all(options.namespaces):
        raise OptionError("namespaces is empty: name at least one, such as kube-system")
    for name in options.namespaces:
        if not is_namespace_name(name):
            raise OptionError(f"namespaces contains {shown_value(name)}, which is not a valid name of a namespace ({NAMESPACE_FORM})")
    for name, known in (("honor_critical_annotation", HONORED), ("hold", HOLDS)):
        if getattr(options, name) not in known:
            raise OptionError(f"{name} is {getattr(options, name)!r}: use one of {', '.join(known)}")
    if not is_qualified_name(options.hold_taint_key):
        found = shown_value(options.hold_taint_key)
        raise OptionError(f"hold_taint_key is {found}, which is not a valid key of a taint: use one such as CriticalAddonsOnly")
