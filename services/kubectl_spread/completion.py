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
from ...plugins.module_utils.kube.client.config.kubeconfig_settings import context_names
from ...plugins.module_utils.kube.client.config.kubeconfig_source import Source
from ...plugins.module_utils.kube.client.errors import KubeError
from ...plugins.module_utils.kube.client.open_transport import open_transport_with
from .connection import find_target
from .flags import FLAGS, FORMATS, KIND_WORDS, USER_AGENT, WITH_WORDS, Flag, UsageError, parse_flags

FILES, NO_FILES = 0, 4
"""The directives: propose files if there is no other proposal, and propose no files (cobra ShellCompDirectiveNoFileComp)."""

WITHIN_S = 3
"""The seconds after which a person has no proposals from a cluster that does not answer."""

WITH_FILES = ("kubeconfig", "certificate-authority", "scheduler-config")


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
        return Proposals()
    lines = [f"{spelling}\t{flag.help}" for flag in FLAGS for spelling in flag.words if spelling.startswith(word)]
    return Proposals(lines)


def _values(flag: Flag, begun: str, before: Sequence[str], environment: Mapping[str, str]) -> Proposals:
    """Return the values of a flag that begin with a text. The words before it select the cluster."""
    if flag.name in WITH_FILES:
        return Proposals(directive=FILES)
    find = VALUES.get(flag.name)
    if find is None:
        return Proposals()
    try:
        known = find(parse_flags(before), environment)
    except (UsageError, KubeError, ConnectionSettingsError):
        return Proposals()
    return Proposals([value for value in known if value.startswith(begun)])


def _contexts(flags: argparse.Namespace, _environment: Mapping[str, str]) -> Sequence[str]:
    return sorted(context_names(Source(flags.kubeconfig)))


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
    transport = open_transport_with(find_target(flags, environment).options, user_agent=USER_AGENT)
    return KubeApi(transport, retry_for_s=0, answer_timeout_s=WITHIN_S)


VALUES: Mapping[str, Callable[[argparse.Namespace, Mapping[str, str]], Sequence[str]]] = {
    "output": lambda _flags, _environment: FORMATS,
    "kind": lambda _flags, _environment: tuple(KIND_WORDS),
    "context": _contexts,
    "namespace": _namespaces,
    "exclude-namespace": _namespaces,
    "topology-key": _topology_keys,
}
"""The values by the name of the flag."""
