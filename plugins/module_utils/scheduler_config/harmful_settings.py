# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Settings that kube-scheduler accepts, and whose effect is probably not intended. Each is a warning with a remedy."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping, Sequence

from .decoding import checked_lists
from .extender_rules import has_authority
from .plugin_sets import EnabledPlugins, KnownPlugins
from .problem import HARMFUL, Problem
from .validation import DEFAULT_SCHEDULER, uses_cluster_lease
from .values import duration_ns, mapping_of, number_of, text_of
from .versions import ConfigTarget

DEFAULT_TIMEOUT_NS = 5 * 10**9
LONG_TIMEOUT_NS = 10**9
"""Every pod waits this long for an extender that does not answer, so a timeout above a second is long."""
SCORE_PER_WEIGHT = 100
"""The largest score of an extender, and of a plugin, with the weight 1."""


def harmful_settings(config: Mapping[str, t.Any], target: ConfigTarget, known_plugins: frozenset[str] = frozenset()) -> list[Problem]:
    """Return the harmful settings of a valid configuration."""
    profiles, extenders = checked_lists(config)
    enabled = [EnabledPlugins(profile.get("plugins"), KnownPlugins(target, known_plugins)) for profile in profiles or [{}]]
    found = list(_election_warnings(mapping_of(config.get("leaderElection")), profiles))
    if target.has_tables:
        for number, plugins in enumerate(enabled):
            found += _score_warnings(plugins, f"profiles[{number}]", target)
    # A weight of 0 counts as 1.
    together = max(sum(weight or 1 for _name, weight in plugins.at("score")) for plugins in enabled) if target.has_tables else 0
    for number, extender in enumerate(extenders):
        found += _extender_warnings(extender, f"extenders[{number}]", together)
    return found


def _warning(path: str, message: str, remedy: str) -> Problem:
    return Problem(path, message, remedy, HARMFUL)


def _extender_warnings(extender: Mapping[str, t.Any], path: str, together: int) -> Iterator[Problem]:
    verbs = {name for name in ("filterVerb", "preemptVerb", "prioritizeVerb", "bindVerb") if text_of(extender.get(name))}
    if not verbs:
        yield _warning(path, "it has no verb, so kube-scheduler never calls it", "add a verb such as prioritizeVerb")
    if "filterVerb" in verbs and "preemptVerb" not in verbs:
        message = "preemption does not ask the extender, and may evict pods on a node that the extender then rejects"
        yield _warning(f"{path}.filterVerb", message, "add preemptVerb if the extender has it")
    yield from _weight_warnings(extender, path, together, verbs)
    yield from _cache_warnings(extender, path, verbs)
    if extender.get("enableHTTPS") is True and not has_authority(mapping_of(extender.get("tlsConfig"))):
        yield _warning(f"{path}.enableHTTPS", "without a CA the certificate is not verified", "add tlsConfig.caFile or tlsConfig.caData")
    if extender.get("ignorable") is not True and verbs - {"prioritizeVerb"}:
        message = "while the extender does not answer, no pod of any profile is scheduled"
        yield _warning(f"{path}.ignorable", message, "set it to true, unless placing a pod without the extender is worse")
    timeout = duration_ns(extender.get("httpTimeout")) or DEFAULT_TIMEOUT_NS
    if verbs and timeout > LONG_TIMEOUT_NS:
        shown = extender.get("httpTimeout") or "5s, the default"
        message = f"every pod of every profile waits up to {shown} for an extender that does not answer"
        yield _warning(f"{path}.httpTimeout", message, "set a short one such as 200ms")


def _weight_warnings(extender: Mapping[str, t.Any], path: str, together: int, verbs: set[str]) -> Iterator[Problem]:
    weight = number_of(extender.get("weight"))
    if "prioritizeVerb" in verbs and together and weight > together:
        message = (
            f"the extender adds up to {weight * SCORE_PER_WEIGHT} to the score of a node, "
            f"and all plugins of a profile together add at most {together * SCORE_PER_WEIGHT}"
        )
        yield _warning(f"{path}.weight", message, f"set it to {together} or less, unless the extender is to decide alone")


def _cache_warnings(extender: Mapping[str, t.Any], path: str, verbs: set[str]) -> Iterator[Problem]:
    if extender.get("nodeCacheCapable") is True or not verbs & {"filterVerb", "prioritizeVerb"}:
        return
    message = "every request contains all nodes as whole objects"
    if "filterVerb" in verbs:
        message += ", and the resource plugins then score every node as empty (kubernetes#141781)"
    yield _warning(f"{path}.nodeCacheCapable", message, "set it to true if the extender accepts the names of nodes")


def _score_warnings(plugins: EnabledPlugins, path: str, target: ConfigTarget) -> Iterator[Problem]:
    default = {name for name, _weight in KnownPlugins(target).defaults()}
    if not default & {name for name, _weight in plugins.at("score")}:
        message = "no default plugin scores nodes, so free capacity, spreading and preferred affinity have no effect"
        yield _warning(f"{path}.plugins.score", message, "disable only the plugins that are in the way, by name")


def _election_warnings(election: Mapping[str, t.Any], profiles: Sequence[Mapping[str, t.Any]]) -> Iterator[Problem]:
    names = {profile.get("schedulerName") or DEFAULT_SCHEDULER for profile in profiles} or {DEFAULT_SCHEDULER}
    if uses_cluster_lease(election) and DEFAULT_SCHEDULER not in names:
        message = "it is the Lease of the cluster's own kube-scheduler, so only one of the two schedules pods"
        yield _warning("leaderElection.resourceName", message, f"set it to another name such as {sorted(map(str, names))[0]}")
