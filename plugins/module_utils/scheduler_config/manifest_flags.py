# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The flags of a kube-scheduler that a configuration file replaces or contradicts (``cmd/kube-scheduler/app/options/options.go``).

With ``--config``, kube-scheduler ignores the flags for its connection and for profiling. Its flags for leader election override the file.
"""

from __future__ import annotations

import copy
import typing as t
from collections.abc import Callable, Iterator, Mapping, Sequence

from .problem import SchedulerConfigError
from .values import Config, duration_ns, mapping_of

TRUE, FALSE = ("1", "t", "true"), ("0", "f", "false")


def _boolean(text: str) -> bool:
    if text.lower() in TRUE + FALSE:
        return text.lower() in TRUE
    raise ValueError("not true or false")


def _duration(text: str) -> str:
    if duration_ns(text) is None:
        raise ValueError("not a duration")
    return text


_Field = tuple[str, str, Callable[[str], t.Any]]

IGNORED_FLAGS: dict[str, _Field] = {
    "kubeconfig": ("clientConnection", "kubeconfig", str),
    "kube-api-content-type": ("clientConnection", "contentType", str),
    "kube-api-qps": ("clientConnection", "qps", float),
    "kube-api-burst": ("clientConnection", "burst", int),
    "profiling": ("", "enableProfiling", _boolean),
    "contention-profiling": ("", "enableContentionProfiling", _boolean),
}
"""The flags that have no effect with ``--config``: the mapping and the field that replace each, and its type."""

ELECTION_FLAGS: dict[str, _Field] = {
    "leader-elect": ("leaderElection", "leaderElect", _boolean),
    "leader-elect-lease-duration": ("leaderElection", "leaseDuration", _duration),
    "leader-elect-renew-deadline": ("leaderElection", "renewDeadline", _duration),
    "leader-elect-retry-period": ("leaderElection", "retryPeriod", _duration),
    "leader-elect-resource-lock": ("leaderElection", "resourceLock", str),
    "leader-elect-resource-name": ("leaderElection", "resourceName", str),
    "leader-elect-resource-namespace": ("leaderElection", "resourceNamespace", str),
}
"""The flags that override the file."""

BOOLEAN_FLAGS = {
    "authentication-skip-lookup", "authentication-tolerate-lookup-failure", "contention-profiling", "help", "leader-elect",
    "log-json-split-stream", "log-text-split-stream", "permit-address-sharing", "permit-port-sharing", "profiling", "version",
}  # fmt: skip
"""The flags that need no value (``kube-scheduler --help``, 1.26 to 1.36)."""


class Flag(t.NamedTuple):
    """A flag of a command line, and the places of its words. A flag with its value in the next word has two."""

    name: str
    value: str
    places: tuple[int, ...]


def each_flag(command: Sequence[str]) -> Iterator[Flag]:
    """Yield the flags of a command line in their order."""
    words = [str(word) for word in command]
    for place, word in enumerate(words):
        if word.startswith("-") and word.strip("-"):
            name, equals, value = word.lstrip("-").partition("=")
            name = name.replace("_", "-")
            following = words[place + 1] if place + 1 < len(words) else ""
            # A flag of an unknown version may be a boolean one. Then the next word is the next flag.
            is_alone = bool(equals) or name in BOOLEAN_FLAGS or following.startswith("-")
            yield Flag(name, value if equals else ("true" if is_alone else following), (place,) if is_alone else (place, place + 1))


def flags_of(command: Sequence[str]) -> dict[str, str]:
    """Return the flags of a command line by name. Of a repeated flag the last value counts."""
    return {flag.name: flag.value for flag in each_flag(command)}


def take_over(config: Mapping[str, t.Any], flags: Mapping[str, str]) -> tuple[Config, list[str]]:
    """Return the configuration with the values of the flags that ``--config`` makes ineffective, and notes about them.

    A value that the configuration already has is kept. If the command line has ``--config``, the flags had no effect until now, and nothing
    is taken over. Raise SchedulerConfigError for a flag with a value that kube-scheduler cannot read.
    """
    result, notes = copy.deepcopy(dict(config)), []
    for flag, (section, key, value) in _values(flags, IGNORED_FLAGS):
        fields = mapping_of(result.get(section)) if section else result
        place = f"{section}.{key}" if section else key
        present = fields.get(key)
        if present is None and "config" not in flags:
            if section:
                result[section] = {**fields, key: value}
            else:
                result[key] = value
        elif present != value:
            notes.append(f"--{flag}: with --config the flag has no effect, and {place} of the file is {_shown(present)}; remove the flag")
    return result, notes


def contradictions(config: Mapping[str, t.Any], flags: Mapping[str, str]) -> Iterator[str]:
    """Yield an error for each flag for leader election that overrides another value of the file. Raise SchedulerConfigError as above."""
    for flag, (section, key, value) in _values(flags, ELECTION_FLAGS):
        wanted = mapping_of(config.get(section)).get(key)
        if wanted is not None and not _same(wanted, value):
            yield (
                f"--{flag}: the flag of kube-scheduler overrides the file, and its value {_shown(value)} contradicts {section}.{key} "
                f"{_shown(wanted)}; remove the flag, or set the field to the same value"
            )


def _values(flags: Mapping[str, str], table: Mapping[str, _Field]) -> Iterator[tuple[str, tuple[str, str, t.Any]]]:
    for flag, (section, key, convert) in table.items():
        if flag in flags:
            try:
                yield flag, (section, key, convert(flags[flag]))
            except ValueError:
                raise SchedulerConfigError(
                    f"--{flag}: its value {flags[flag]!r} cannot be read; correct the flag of kube-scheduler"
                ) from None


def _same(one: t.Any, other: t.Any) -> bool:
    return one == other or (duration_ns(one) is not None and duration_ns(one) == duration_ns(other))


def _shown(value: t.Any) -> str:
    return "not set" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
