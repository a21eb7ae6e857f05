# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A configuration in another API version, or the parts that would be lost (kubernetes ``pkg/scheduler/apis/config`` 1.23 to 1.25)."""

from __future__ import annotations

import copy
import typing as t
from collections.abc import Iterator, Mapping

from .decoding import type_problems
from .problem import UNKNOWN_FIELD, SchedulerConfigError
from .values import Config, list_of, mapping_of, number_of, text_of
from .versions import GROUP, ConfigTarget, full_name, short_name

REMOVED_IN_V1 = "SelectorSpread"
WEIGHTS_OF_V1BETA3 = {"InterPodAffinity": (1, 2), "NodeAffinity": (1, 2), "TaintToleration": (1, 3)}
"""The default weights before and since v1beta3."""
OLD_ADDRESSES = ("healthzBindAddress", "metricsBindAddress")

_NoteTexts = list[str]


def convert_config(config: Mapping[str, t.Any], target: ConfigTarget) -> tuple[Config, _NoteTexts]:
    """Return the configuration in the target's API version, and notes about defaults that differ.

    Raise SchedulerConfigError with the name of each part that the target does not have.
    """
    source = short_name(config.get("apiVersion"))
    result: Config = copy.deepcopy(dict(config))
    notes: _NoteTexts = []
    if source == target.api_version:
        return result, notes
    lost: list[str] = []
    if target.is_since(source):
        if source == "v1beta2":
            notes += _to_v1beta3(result)
        if target.api_version == "v1":
            lost += _remove_selector_spread(result)
    else:
        lost += _later_fields(result, ConfigTarget(source, None), target)
        if target.api_version == "v1beta2":
            notes += _weight_notes(result, backwards=True)
    result["apiVersion"] = full_name(target.api_version)
    _rename_argument_versions(result, target)
    if lost:
        raise SchedulerConfigError(
            "\n".join(f"{part}; then run this again, or set api_version to {source} if the scheduler reads it" for part in lost)
        )
    return result, [f"{note} (converted from {source} to {target.api_version})" for note in notes]


def _to_v1beta3(config: Config) -> _NoteTexts:
    notes = _weight_notes(config, backwards=False)
    for name in OLD_ADDRESSES:
        if config.pop(name, None):
            notes.append(f"{name}: it is removed; kube-scheduler serves health and metrics only on its secure port since Kubernetes 1.23")
    return notes


def _profiles(config: Config) -> Iterator[tuple[str, dict[str, t.Any]]]:
    for number, profile in enumerate(list_of(config.get("profiles"))):
        if isinstance(profile, dict):
            yield f"profiles[{number}]", profile


def _remove_selector_spread(config: Config) -> list[str]:
    """Return the places where SelectorSpread is enabled or has arguments, and remove it from the lists of disabled plugins."""
    remedy = f"v1 does not have the plugin {REMOVED_IN_V1}: use PodTopologySpread, which is enabled by default"
    lost = []
    for path, profile in _profiles(config):
        for point, plugin_set in mapping_of(profile.get("plugins")).items():
            if REMOVED_IN_V1 in _names(mapping_of(plugin_set).get("enabled")):
                lost.append(f"{path}.plugins.{point}.enabled: {remedy}")
            disabled = list_of(mapping_of(plugin_set).get("disabled"))
            if disabled:
                plugin_set["disabled"] = [one for one in disabled if mapping_of(one).get("name") != REMOVED_IN_V1]
        for number, name in enumerate(_names(profile.get("pluginConfig"))):
            if name == REMOVED_IN_V1:
                lost.append(f"{path}.pluginConfig[{number}]: {remedy}")
    return lost


def _names(entries: t.Any) -> list[str]:
    return [text_of(mapping_of(entry).get("name")) for entry in list_of(entries)]


def _weight_notes(config: Config, *, backwards: bool) -> _NoteTexts:
    """Return a note for each profile that scores by the default weights which v1beta3 changed."""
    notes = []
    for path, profile in list(_profiles(config)) or [("the profile default-scheduler", {})]:
        changed = [name for name in WEIGHTS_OF_V1BETA3 if not _has_own_weight(profile, name)]
        if changed:
            pairs = ((name, *WEIGHTS_OF_V1BETA3[name][:: -1 if backwards else 1]) for name in changed)
            words = ", ".join(f"{name} {before} to {after}" for name, before, after in pairs)
            notes.append(f"{path}: default weights change: {words}; set the weights at plugins.score to keep the old ones")
    return notes


def _has_own_weight(profile: Mapping[str, t.Any], name: str) -> bool:
    for point in ("score", "multiPoint"):
        plugin_set = mapping_of(mapping_of(profile.get("plugins")).get(point))
        entries = [mapping_of(one) for one in list_of(plugin_set.get("enabled"))]
        if any(one.get("name") == name and number_of(one.get("weight")) for one in entries):
            return True
        if {"*", name} & set(_names(plugin_set.get("disabled"))):
            return True
    return False


def _rename_argument_versions(config: Config, target: ConfigTarget) -> None:
    for _path, profile in _profiles(config):
        for entry in map(mapping_of, list_of(profile.get("pluginConfig"))):
            args = entry.get("args")
            if isinstance(args, dict) and text_of(args.get("apiVersion")).startswith(f"{GROUP}/"):
                args["apiVersion"] = full_name(target.api_version)


def _later_fields(config: Config, source: ConfigTarget, target: ConfigTarget) -> Iterator[str]:
    """Yield the fields that the source has and the older target does not have."""
    known = {problem.path for problem in type_problems(config, source) if problem.kind == UNKNOWN_FIELD}
    for problem in type_problems(config, target):
        if problem.kind == UNKNOWN_FIELD and problem.path not in known:
            yield f"{problem.path}: {target.api_version} of this Kubernetes version does not have the field: remove it"
