# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The wanted configuration: one profile, extenders and settings added to, changed in or removed from an existing one."""

from __future__ import annotations

import copy
import typing as t
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .decoding import has_field
from .problem import SchedulerConfigError
from .validation import DEFAULT_SCHEDULER, uses_cluster_lease
from .values import Config, list_of, mapping_of, text_of
from .versions import KIND, ConfigTarget, full_name

PERCENTAGE = "percentageOfNodesToScore"


@dataclass(frozen=True)
class ProfileChange:
    """The wanted change. None keeps what the configuration has.

    A given field of the profile replaces the whole field. An extender replaces the one with its urlPrefix. ``leader_election`` and
    ``client_connection`` replace only the fields that they have.
    """

    name: t.Optional[str] = None
    plugins: t.Optional[Mapping[str, t.Any]] = None
    plugin_config: t.Optional[Sequence[t.Any]] = None
    percentage: t.Optional[int] = None
    extenders: t.Optional[Sequence[Mapping[str, t.Any]]] = None
    leader_election: t.Optional[Mapping[str, t.Any]] = None
    client_connection: t.Optional[Mapping[str, t.Any]] = None
    absent: bool = False
    force: bool = False


class Merged(t.NamedTuple):
    """A wanted configuration, None if there is none, and what the user should know."""

    config: t.Optional[Config]
    notes: tuple[str, ...] = ()


def merge(
    before: t.Optional[Mapping[str, t.Any]], change: ProfileChange, target: ConfigTarget, *, runs_without_file: bool = False
) -> Merged:
    """Return the configuration after the change. ``before`` has the target's API version, or is None without a file.

    A new configuration keeps the profile default-scheduler if the scheduler of the cluster will read it: the scheduler that has run
    without a file until now (``runs_without_file``), or one without a Lease of its own. A second scheduler has such a Lease.

    Raise SchedulerConfigError if a removal needs ``force``, or if an extender has no urlPrefix.
    """
    if change.absent:
        return Merged(None) if before is None else _removed(copy.deepcopy(dict(before)), change)
    config: Config = {"apiVersion": full_name(target.api_version), "kind": KIND} if before is None else copy.deepcopy(dict(before))
    for key, given in (("clientConnection", change.client_connection), ("leaderElection", change.leader_election)):
        if given:
            config[key] = {**mapping_of(config.get(key)), **given}
    notes: tuple[str, ...] = ()
    if change.name is not None:
        is_second = before is None and not runs_without_file and not uses_cluster_lease(mapping_of(config.get("leaderElection")))
        notes = _set_profile(config, change.name, change, target, is_second=is_second)
    if change.extenders:
        config["extenders"] = _with_extenders(list_of(config.get("extenders")), change.extenders)
    return Merged(config, notes)


def _set_profile(config: Config, name: str, change: ProfileChange, target: ConfigTarget, *, is_second: bool) -> tuple[str, ...]:
    profiles = _explicit_profiles(config, name, is_second=is_second)
    profile = next((one for one in profiles if _name_of(one, profiles) == name), None)
    if profile is None:
        profile = {"schedulerName": name}
        profiles.append(profile)
    config["profiles"] = profiles
    for key, value in (("plugins", change.plugins), ("pluginConfig", change.plugin_config)):
        if value is not None:
            profile[key] = copy.deepcopy(value)
    if change.percentage is None:
        return ()
    if has_field("KubeSchedulerProfile", PERCENTAGE, target):
        profile[PERCENTAGE] = change.percentage
        return ()
    config[PERCENTAGE] = change.percentage
    return (f"{PERCENTAGE}: {target.api_version} of this Kubernetes version has it only for all profiles; it now applies to all of them",)


def _explicit_profiles(config: Config, name: str, *, is_second: bool) -> list[t.Any]:
    """Return the profiles with the implied default-scheduler written out, if another profile is added."""
    profiles = list_of(config.get("profiles"))
    if not profiles and not is_second and name != DEFAULT_SCHEDULER:
        return [{"schedulerName": DEFAULT_SCHEDULER}]
    if len(profiles) == 1 and mapping_of(profiles[0]).get("schedulerName") is None and name != DEFAULT_SCHEDULER:
        return [{**mapping_of(profiles[0]), "schedulerName": DEFAULT_SCHEDULER}]
    return profiles


def _name_of(profile: t.Any, profiles: Sequence[t.Any]) -> str:
    name = mapping_of(profile).get("schedulerName")
    return DEFAULT_SCHEDULER if name is None and len(profiles) == 1 else text_of(name)


def _with_extenders(existing: Sequence[t.Any], given: Sequence[Mapping[str, t.Any]]) -> list[t.Any]:
    result = list(existing)
    for number, extender in enumerate(given):
        url = _url_of(extender, number)
        places = [index for index, one in enumerate(result) if mapping_of(one).get("urlPrefix") == url]
        if places:
            result[places[0]] = copy.deepcopy(dict(extender))
        else:
            result.append(copy.deepcopy(dict(extender)))
    return result


def _url_of(extender: Mapping[str, t.Any], number: int) -> str:
    url = text_of(extender.get("urlPrefix"))
    if not url:
        raise SchedulerConfigError(f"extenders[{number}].urlPrefix: it is missing; add the URL below which the verbs of the extender are")
    return url


def _removed(config: Config, change: ProfileChange) -> Merged:
    notes: list[str] = []
    if change.name is not None:
        notes += _remove_profile(config, change.name, force=change.force)
    if change.extenders:
        urls = {_url_of(extender, number) for number, extender in enumerate(change.extenders)}
        kept = [one for one in list_of(config.get("extenders")) if mapping_of(one).get("urlPrefix") not in urls]
        if len(kept) < len(list_of(config.get("extenders"))):
            _set_or_remove(config, "extenders", kept)
    return Merged(config, tuple(notes))


def _remove_profile(config: Config, name: str, *, force: bool) -> list[str]:
    profiles = list_of(config.get("profiles"))
    kept = [one for one in profiles if _name_of(one, profiles) != name]
    if len(kept) == len(profiles):
        if not profiles and name == DEFAULT_SCHEDULER:
            raise SchedulerConfigError(
                f"profile {name}: a configuration without profiles has it implicitly; add another profile first, then remove this one"
            )
        return []
    if not force and (not kept or name == DEFAULT_SCHEDULER):
        reason = "pods without a schedulerName need it" if name == DEFAULT_SCHEDULER else "it is the last profile"
        raise SchedulerConfigError(f"profile {name}: it is not removed, because {reason}; set force to true to remove it")
    _set_or_remove(config, "profiles", kept)
    return [] if kept else [f"profiles: no profile is left, so kube-scheduler has the profile {DEFAULT_SCHEDULER} with its default plugins"]


def _set_or_remove(config: Config, key: str, entries: list[t.Any]) -> None:
    if entries:
        config[key] = entries
    else:
        del config[key]
