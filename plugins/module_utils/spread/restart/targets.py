# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The workloads that k8s_rollout_restart is given: by name, as a list, or as the registered result of k8s_spread_check."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ...model.api.workload import WORKLOAD_KINDS, Workload
from ...model.option_values import OptionError
from ...model.values.shown import shown_value

_WHAT = "it must be the registered result of k8s_spread_check"
_LISTS = ("restartable", "uneven", "interrupted")


class Target(t.NamedTuple):
    """A workload for which a restart is requested."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, workload: Workload) -> Target:
        """Return the workload as a target."""
        return cls(workload.kind, workload.metadata.namespace, workload.metadata.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


class CheckedResult(t.NamedTuple):
    """The parts of a result of k8s_spread_check that a restart needs."""

    restartable: tuple[Target, ...]
    uneven: tuple[Target, ...]
    interrupted: tuple[Target, ...]
    topology_keys: tuple[str, ...]
    max_skew: t.Optional[int]
    predicted: bool
    scheduler_config: tuple[str, ...] = ()

    def targets(self, *, restartable: bool, only_if_helps: bool) -> list[Target]:
        """Return the workloads to restart, or to evict pods from: the ``restartable`` or the uneven ones.

        Workloads with an interrupted restart are included if ``only_if_helps`` is true. Then their outcome is recorded, and they are moved
        only if that helps. Raise OptionError for the restartable ones of a check without predictions, which finds none.
        """
        if restartable and not self.predicted:
            raise OptionError("check: the check ran with predict: false, so nothing is restartable; set predict: true, or another strategy")
        found = self.restartable if restartable else self.uneven
        return list(dict.fromkeys((*found, *(self.interrupted if only_if_helps else ()))))


def read_check(value: t.Any) -> CheckedResult:
    """Return the parts of the option ``check``. Raise OptionError for anything but a result of k8s_spread_check."""
    if not isinstance(value, Mapping):
        raise OptionError(f'check: {_WHAT}, not {_kind_of(value)}; write check: "{{{{ spread }}}}" after register: spread')
    if "results" in value and "workloads" not in value:
        raise OptionError("check: the registered result of a loop is a list of results; pass one of them, such as spread.results[0]")
    if value.get("skipped") and "workloads" not in value:
        raise OptionError("check: the task with k8s_spread_check was skipped and has no result; skip this task under the same condition")
    if value.get("failed"):
        raise OptionError(f"check: the task with k8s_spread_check failed: {value.get('msg') or 'without a message'}")
    options = value.get("options")
    missing = [name for name in (*_LISTS, "options") if name not in value]
    if missing or not isinstance(options, Mapping):
        raise OptionError(f"check: {_WHAT}; {f'the key {missing[0]} is missing' if missing else 'its options are not valid'}")
    targets = {name: tuple(_target(name, entry) for entry in _list(name, value[name])) for name in _LISTS}
    keys, max_skew = _list("options.topology_keys", options.get("topology_keys")), options.get("max_skew")
    predicted = options.get("predict", True)
    if max_skew is not None and (isinstance(max_skew, bool) or not isinstance(max_skew, int) or max_skew < 1):
        raise OptionError(f"check: {_WHAT}; its options.max_skew is {shown_value(max_skew)}")
    if not isinstance(predicted, bool):
        raise OptionError(f"check: {_WHAT}; its options.predict is {shown_value(predicted)}")
    configs = _list("options.scheduler_config", options.get("scheduler_config") or [])
    for text in configs:
        if not isinstance(text, str):
            raise OptionError(f"check: {_WHAT}; its options.scheduler_config has {shown_value(text)}")
    for key in keys:
        if not isinstance(key, str):
            raise OptionError(f"check: {_WHAT}; its options.topology_keys has {shown_value(key)}")
    return CheckedResult(**targets, topology_keys=tuple(keys), max_skew=max_skew, predicted=predicted, scheduler_config=tuple(configs))


def named_targets(params: Mapping[str, t.Any]) -> list[Target]:
    """Return the workload of the option ``name``, or the workloads of the option ``workloads``."""
    if params.get("name") is not None:
        return [Target(params["kind"], params["namespace"], params["name"])]
    return [Target(entry["kind"], entry["namespace"], entry["name"]) for entry in params["workloads"]]


def _kind_of(value: t.Any) -> str:
    return f"the text {shown_value(value)}" if isinstance(value, str) else f"a {type(value).__name__}"


def _list(name: str, value: t.Any) -> list[t.Any]:
    if not isinstance(value, list):
        raise OptionError(f"check: {_WHAT}; its {name} is not a list")
    return value


def _target(name: str, entry: t.Any) -> Target:
    fields = [entry.get(key) for key in Target._fields] if isinstance(entry, Mapping) else []
    texts = [field for field in fields if isinstance(field, str) and field]
    if len(texts) != len(Target._fields) or texts[0] not in WORKLOAD_KINDS:
        raise OptionError(f"check: {_WHAT}; its {name} has the entry {shown_value(entry)}, which is not a workload")
    return Target(*texts)
