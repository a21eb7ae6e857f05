# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""``kubectl_complete-spread``: the words that a shell proposes after ``kubectl spread``.

kubectl starts it with the words that were typed, the last of which may be empty or incomplete. It expects one proposal in each line, and
in the last line a colon with the sum of the directives (kubernetes ``pkg/cmd/plugin/plugin_completion.go``, cobra ``completions.go``).
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import typing as t
from collections.abc import Callable, Mapping, Sequence
from types import FrameType

from ...plugins.module_utils.kube.client import resources
from ...plugins.module_utils.kube.client.api import KubeApi
from ...plugins.module_utils.kube.client.config.files import ConnectionSettingsError
from ...plugins.module_utils.kube.client.config.kubeconfig_settings import kubeconfig_names
from ...plugins.module_utils.kube.client.config.kubeconfig_source import Source
from ...plugins.module_utils.kube.client.errors import KubeError
from .connection import find_target, open_api
from .flags import FLAGS, FORMATS, KIND_WORDS, WITH_WORDS, Flag, UsageError, parse_flags_before
from .workload_names import kind_of

FILES, NO_SPACE, NO_FILES = 0, 2, 4
"""The directives: propose files if there is no other proposal, add no space after the word, and propose no files (cobra
ShellCompDirectiveNoSpace, ShellCompDirectiveNoFileComp)."""

WITHIN_S = 3
"""The seconds after which a person has no proposals from a cluster that does not answer."""

WITH_FILES = ("kubeconfig", "certificate-authority", "client-certificate", "client-key", "scheduler-config")


NO_PROPOSALS = (UsageError, KubeError, ConnectionSettingsError, SystemExit)
"""The errors after which nothing is proposed. SystemExit is the error with which argparse ends a program."""


class Proposals(t.NamedTuple):
    """The proposals for the last word, each as a line, and the directive for the shell."""

    lines: Sequence[str] = ()
    directive: int = NO_FILES


def main() -> int:
    """Print the proposals for the words in the arguments of the process. Return 0 in any case, because a shell shows no errors."""
    signal.signal(signal.SIGALRM, _end)
    signal.alarm(WITHIN_S)
    found = proposals(sys.argv[1:], os.environ)
    signal.alarm(0)
    print(*found.lines, f":{found.directive}", sep="\n")
    return 0


def _end(_number: int, _frame: FrameType | None) -> None:
    """End the process without proposals."""
    os.write(sys.stdout.fileno(), f":{NO_FILES}\n".encode())
    os._exit(0)


def proposals(words: Sequence[str], environment: Mapping[str, str]) -> Proposals:
    """Return the proposals for the last of the words that follow ``kubectl spread``."""
    *before, word = words or [""]
    name, equals, begun = word.partition("=")
    if equals and name in WITH_WORDS:
        return _values(WITH_WORDS[name], begun, before, environment)
    if before and before[-1] in WITH_WORDS and WITH_WORDS[before[-1]].metavar:
        return _values(WITH_WORDS[before[-1]], word, before[:-1], environment)
    if not word.startswith("-"):
        return _workloads(before, word, environment)
    lines = [f"{spelling}\t{flag.help}" for flag in FLAGS for spelling in flag.words if spelling.startswith(word)]
    return Proposals(lines)


def _workloads(before: Sequence[str], word: str, environment: Mapping[str, str]) -> Proposals:
    """Return the kinds or the names of workloads that begin with a text, in the form that the words before have."""
    try:
        flags = parse_flags_before(before)
        given = flags.arguments
        if "/" in word or (given and "/" not in given[0]):
            prefix = f"{word.partition('/')[0]}/" if "/" in word else ""
            names = _names(flags, prefix[:-1] if prefix else given[0], environment)
            found = [f"{prefix}{name}" for name in names]
            return Proposals([text for text in _matching(found, word) if text not in given])
    except NO_PROPOSALS:
        return Proposals()
    words = [words[0] for words in KIND_WORDS.values()]
    if given:
        return Proposals([f"{kind}/" for kind in words if kind.startswith(word)], NO_SPACE | NO_FILES)
    return Proposals([kind for kind in words if kind.startswith(word)])


def _names(flags: argparse.Namespace, kinds: str, environment: Mapping[str, str]) -> list[str]:
    """Return the names of the workloads of these kinds, which are a list with commas."""
    target = find_target(flags, environment)
    api = open_api(target, request_timeout_s=WITHIN_S)
    chosen = dict.fromkeys(kind_of(word) for word in kinds.split(","))
    places = flags.namespace or [target.namespace]
    found = {one.metadata.name for kind in chosen for place in places for one in api.list_all(resources.WORKLOADS[kind], namespace=place)}
    return sorted(found)


def _values(flag: Flag, begun: str, before: Sequence[str], environment: Mapping[str, str]) -> Proposals:
    """Return the values of a flag that begin with a text. The words before it select the cluster."""
    if flag.name in WITH_FILES:
        return Proposals(directive=FILES)
    find = VALUES.get(flag.name)
    if find is None:
        return Proposals()
    try:
        known = find(parse_flags_before(before), environment)
    except NO_PROPOSALS:
        return Proposals()
    return Proposals(_matching(known, begun))


def _matching(names: Sequence[str], begun: str) -> list[str]:
    """Return the names that begin with a text. A name with a line break would be several proposals, or a directive."""
    return [name for name in names if name.startswith(begun) and name.isprintable()]


def _entries(kind: str) -> Callable[[argparse.Namespace, Mapping[str, str]], Sequence[str]]:
    """Return the function that lists the names of the entries of a kubeconfig. ``kind`` is contexts, clusters or users."""
    return lambda flags, _environment: sorted(getattr(kubeconfig_names(Source(flags.kubeconfig)), kind))


def _namespaces(flags: argparse.Namespace, environment: Mapping[str, str]) -> Sequence[str]:
    return sorted(namespace.metadata.name for namespace in _api(flags, environment).list_all(resources.NAMESPACES))


def _topology_keys(flags: argparse.Namespace, environment: Mapping[str, str]) -> Sequence[str]:
    """Return the labels of the nodes that have more than one value, because replicas cannot be spread over a single one."""
    values: dict[str, set[str]] = {}
    for node in _api(flags, environment).list_all(resources.NODES):
        for key, value in node.labels.items():
            values.setdefault(key, set()).add(value)
    return sorted(key for key, found in values.items() if len(found) > 1)


def _api(flags: argparse.Namespace, environment: Mapping[str, str]) -> KubeApi:
    return open_api(find_target(flags, environment), request_timeout_s=WITHIN_S)


VALUES: Mapping[str, Callable[[argparse.Namespace, Mapping[str, str]], Sequence[str]]] = {
    "output": lambda _flags, _environment: FORMATS,
    "kind": lambda _flags, _environment: tuple(KIND_WORDS),
    "context": _entries("contexts"),
    "cluster": _entries("clusters"),
    "user": _entries("users"),
    "namespace": _namespaces,
    "exclude-namespace": _namespaces,
    "topology-key": _topology_keys,
}
"""The values by the name of the flag."""
