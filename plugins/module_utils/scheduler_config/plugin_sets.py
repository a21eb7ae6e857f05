# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The plugins of a profile at each extension point, and the rules for them (``pkg/scheduler/framework/runtime/framework.go``)."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator

from ..model.values.shown import shown_value
from .decoding import has_field
from .plugin_tables import DEFAULT_PLUGINS, EXTENSION_POINTS, INVALID_PLUGINS, PLUGINS
from .problem import HARMFUL, UNSAFE, Problem
from .values import list_of, mapping_of, number_of, text_of
from .versions import ConfigTarget

ALL = "*"
MULTI_POINT = "multiPoint"
WEIGHTED_POINTS = ("score", "placementScore")

PluginEntry = tuple[str, int]
"""The name of a plugin and its weight; 0 is no weight."""


class KnownPlugins(t.NamedTuple):
    """The plugins that a kube-scheduler has: those of the tables, and out-of-tree ones, whose extension points are not known."""

    target: ConfigTarget
    out_of_tree: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        """Return whether the plugin is known. Without a table every plugin counts as known."""
        return not self.target.has_tables or name in self.out_of_tree or bool(self.points(name))

    def points(self, name: str) -> list[str]:
        """Return the extension points of an in-tree plugin."""
        return [point for point, span in PLUGINS.get(name, {}).items() if self.target.has(span)]

    def extends(self, name: str, point: str) -> bool:
        """Return whether the plugin can be enabled at the extension point. Out-of-tree plugins count as if they can."""
        return not self.target.has_tables or name in self.out_of_tree or point in self.points(name)

    def is_invalid(self, name: str) -> bool:
        """Return whether the plugin was removed, so that v1 refuses its name."""
        if name not in INVALID_PLUGINS or self.target.api_version != "v1" or not self.target.has(INVALID_PLUGINS[name]):
            return False
        return self.target.minor is not None or not self.points(name)

    def defaults(self) -> list[PluginEntry]:
        """Return the plugins that are enabled by default."""
        weights = ((name, [weight for weight, span in found if self.target.has(span)]) for name, found in DEFAULT_PLUGINS.items())
        return [(name, found[-1]) for name, found in weights if found]


class EnabledPlugins:
    """The plugins of one profile after the defaults are added."""

    def __init__(self, plugins: t.Any, known: KnownPlugins) -> None:
        sets = mapping_of(plugins)
        self._known = known
        self.enabled = {point: _entries(mapping_of(sets.get(point)).get("enabled")) for point in (*EXTENSION_POINTS, MULTI_POINT)}
        self.disabled = {point: _names(mapping_of(sets.get(point)).get("disabled")) for point in (*EXTENSION_POINTS, MULTI_POINT)}
        self.multi_point = _merged(known.defaults(), self.enabled[MULTI_POINT], self.disabled[MULTI_POINT])

    def names(self) -> set[str]:
        """Return the plugins that are enabled at any extension point."""
        return {name for entries in (self.multi_point, *self.enabled.values()) for name, _weight in entries}

    def at(self, point: str) -> list[PluginEntry]:
        """Return the plugins of an extension point: its own ones, and those of multiPoint that it does not disable."""
        own = self.enabled[point]
        names = {name for name, _weight in own}
        return [*own, *(entry for entry in self._expanded(point) if entry[0] not in names)]

    def _expanded(self, point: str) -> Iterator[PluginEntry]:
        if ALL not in self.disabled[point]:
            for name, weight in self.multi_point:
                if name not in self.disabled[point] and self._known.extends(name, point):
                    yield name, weight

    def repeated_at(self, point: str) -> list[str]:
        """Return the plugins that are registered twice at an extension point."""
        own = [name for name, _weight in self.enabled[point]]
        expanded = [name for name, _weight in self._expanded(point) if name not in own]
        return sorted({name for names in (own, expanded) for name in names if names.count(name) > 1})


def set_problems(plugins: t.Any, path: str, known: KnownPlugins) -> Iterator[Problem]:
    """Yield the problems of the plugin sets of one profile."""
    found = EnabledPlugins(plugins, known)
    for point in _points(known.target):
        for number, (name, _weight) in enumerate(found.enabled[point]):
            yield from _entry_problems(name, point, f"{path}.plugins.{point}.enabled[{number}]", known)
        for name in sorted(found.disabled[point]):
            if name != ALL and not known.has(name):
                yield Problem(f"{path}.plugins.{point}.disabled", f"there is no plugin {shown_value(name)}", "correct its name", HARMFUL)
    for point in _points(known.target):
        for name in found.repeated_at(point) if point != MULTI_POINT else ():
            yield Problem(f"{path}.plugins.{point}", f"the plugin {name} is enabled twice", "remove one of the entries")
    if known.target.has_tables:
        yield from _count_problems(found, path, known)
        yield from _weight_problems(found, path, known)


def _points(target: ConfigTarget) -> list[str]:
    return [point for point in (*EXTENSION_POINTS, MULTI_POINT) if has_field("Plugins", point, target)]


def _entry_problems(name: str, point: str, path: str, known: KnownPlugins) -> Iterator[Problem]:
    if name == ALL:
        yield Problem(path, "* is allowed only in disabled", "list the plugins by name")
    elif not known.has(name):
        remedy = "correct its name, or add it to known_plugins if this kube-scheduler has it"
        yield Problem(path, f"kube-scheduler has no plugin {shown_value(name)}", remedy)
    elif point != MULTI_POINT and known.is_invalid(name):
        yield Problem(path, f"v1 refuses the plugin {name}, which is deprecated", "remove the entry")
    elif point != MULTI_POINT and not known.extends(name, point):
        points = ", ".join(known.points(name))
        yield Problem(path, f"the plugin {name} has no extension point {point}", f"enable it at one of {points}, or at multiPoint")


def _weight_problems(found: EnabledPlugins, path: str, known: KnownPlugins) -> Iterator[Problem]:
    """Yield the negative weights. After one of them, kube-scheduler reports an overflow for the next plugin (``getValidScoreWeights``)."""
    for point in WEIGHTED_POINTS:
        multi_point = [entry for entry in found.multi_point if known.extends(entry[0], point)]
        weights: dict[str, int] = {}
        for name, weight in (*found.enabled[point], *multi_point):
            weights.setdefault(name, weight or 1)
        total = 0
        for name, weight in weights.items():
            if total < 0:
                message = "after a negative weight the total of the weights overflows"
                yield Problem(f"{path}.plugins.{point}", message, "write weights of at least 1, or disable plugins")
                break
            if weight < 0:
                remedy = "write a weight of at least 1, or disable the plugin"
                yield Problem(f"{path}.plugins.{point}", f"with the weight {weight} {name} prefers the worst nodes", remedy, UNSAFE)
            total += weight


def _count_problems(found: EnabledPlugins, path: str, known: KnownPlugins) -> Iterator[Problem]:
    sorts, binders = found.at("queueSort"), found.at("bind")
    # An out-of-tree plugin of multiPoint may sort the queue, or not.
    certain = [name for name, _weight in sorts if name not in known.out_of_tree or (name, _weight) in found.enabled["queueSort"]]
    if len(certain) > 1:
        names = ", ".join(certain)
        remedy = "add the others to plugins.queueSort.disabled"
        yield Problem(f"{path}.plugins.queueSort", f"only one plugin can sort the queue, and {names} are enabled", remedy)
    if not sorts:
        yield Problem(f"{path}.plugins.queueSort", "no plugin sorts the queue", "enable PrioritySort")
    if not binders:
        yield Problem(f"{path}.plugins.bind", "no plugin binds pods to nodes", "enable DefaultBinder")
    generators = [name for name, _weight in found.at("placementGenerate") if name not in known.out_of_tree]
    if len(generators) > 1:
        names = ", ".join(generators)
        yield Problem(f"{path}.plugins.placementGenerate", f"only one plugin is allowed, and {names} are enabled", "disable the others")


def _merged(defaults: list[PluginEntry], own: list[PluginEntry], disabled: set[str]) -> list[PluginEntry]:
    """Return the default plugins with the own ones; an own entry replaces the default one of its name in place (``mergePluginSet``)."""
    given = dict(own)
    kept = [] if ALL in disabled else [name for name, _weight in defaults if name not in disabled]
    weights = dict(defaults)
    replaced = {_last_index(own, name) for name in kept if name in given}
    result = [(name, given.get(name, weights[name])) for name in kept]
    return result + [entry for index, entry in enumerate(own) if index not in replaced]


def _last_index(entries: list[PluginEntry], name: str) -> int:
    return max(index for index, (other, _weight) in enumerate(entries) if other == name)


def _entries(plugins: t.Any) -> list[PluginEntry]:
    return [(text_of(one.get("name")), number_of(one.get("weight"))) for one in map(mapping_of, list_of(plugins))]


def _names(plugins: t.Any) -> set[str]:
    return {text_of(mapping_of(one).get("name")) for one in list_of(plugins)}
