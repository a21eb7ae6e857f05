# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The flags of ``kubectl spread``. Those for the connection and the selection have the names and the meaning that they have in kubectl."""

from __future__ import annotations

import argparse
import re
import typing as t
from collections.abc import Sequence

from ...plugins.module_utils.model.api.workload import WORKLOAD_KINDS
from ...plugins.module_utils.model.values.nearest import nearest
from ...plugins.module_utils.model.well_known import HOSTNAME
from ..common.version import version

PROGRAM = "kubectl spread"
WIDE, JSON, YAML, HTML, MARKDOWN = "wide", "json", "yaml", "html", "markdown"
FORMATS = (WIDE, JSON, YAML, HTML, MARKDOWN)

USER_AGENT = "onprem.kube_scheduling/kubectl-spread"

KIND_WORDS = {
    "Deployment": ("deployment", "deployments", "deploy"),
    "StatefulSet": ("statefulset", "statefulsets", "sts"),
}
"""The words for a kind that kubectl knows."""

EPILOG = """\
examples:
  kubectl spread -A                          the map of all namespaces
  kubectl spread -n shop deploy/web sts/db   two workloads; also: deployment web, or deployment for all of this kind
  kubectl spread -n shop --max-skew=1        one namespace; a difference of two replicas is reported, too
  kubectl spread -A --topology-key=topology.kubernetes.io/zone
  kubectl spread -A -o json | jq .summary    the result for programs
  kubectl spread -A -o html > spread.html    a page with search, sorting, and zones that open into nodes

exit codes: 0 nothing collapsed or skewed, 1 some workload is, or one that is named does not exist, 2 wrong flags or connection settings,
3 API server unreachable or forbidden.
Nothing is changed in the cluster. NO_COLOR=1 switches the colours off."""


class UsageError(Exception):
    """A flag cannot be used. The text names it and what can be used."""


class Flag(t.NamedTuple):
    """A flag with its help.

    ``metavar`` is empty for a switch. ``repeated``: it may be given several times, or with a list. ``whole``: its value is not a list,
    although it may be given several times.
    """

    name: str
    metavar: str
    help: str
    short: str = ""
    repeated: bool = False
    whole: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """Return the spellings of the flag."""
        return (f"-{self.short}", f"--{self.name}") if self.short else (f"--{self.name}",)

    @property
    def attribute(self) -> str:
        """Return the name of the value."""
        return self.name.replace("-", "_")


SELECTION = (
    Flag("namespace", "NAMESPACE", "the namespace to check (that of the context); may be repeated", short="n", repeated=True),
    Flag("all-namespaces", "", "check all namespaces", short="A"),
    Flag("exclude-namespace", "NAMESPACE", "a namespace that is not checked; may be repeated", repeated=True),
    Flag("selector", "SELECTOR", "only workloads whose own labels match, such as app=web", short="l"),
    Flag("namespace-annotation", "KEY=VALUE", "only namespaces with this annotation, such as kube-scheduling.onprem/spread=allow (any)"),
    Flag("kind", "KIND", f"the kinds of workloads ({','.join(WORKLOAD_KINDS)})", repeated=True),
)
CHECK = (
    Flag("topology-key", "LABEL", f"the node label over whose values replicas are spread ({HOSTNAME}); may be repeated", repeated=True),
    Flag("max-skew", "N", "the allowed difference of replicas between two nodes or zones (unset: only collapsed workloads are found)"),
    Flag("min-ready-nodes", "N", "the number of usable nodes below which nothing is checked (2)"),
    Flag("scheduler-config", "CONFIG", "a configuration of kube-scheduler: a file, or configmap:NAMESPACE/NAME/KEY", repeated=True),
    Flag("no-predict", "", "do not predict whether a restart helps"),
)
OUTPUT = (Flag("output", "FORMAT", f"{'|'.join(FORMATS)} (a map as wide as the terminal)", short="o"),)
CONNECTION = (
    Flag("kubeconfig", "FILE", "the kubeconfig (KUBECONFIG, or ~/.kube/config)"),
    Flag("context", "NAME", "the context of the kubeconfig (its current context)"),
    Flag("cluster", "NAME", "the cluster of the kubeconfig (that of the context)"),
    Flag("user", "NAME", "the user of the kubeconfig (that of the context)"),
    Flag("server", "URL", "the address of the API server", short="s"),
    Flag("request-timeout", "TIME", "the time for one request with its answer, such as 10, 10s or 1m (unset: 60 s without data)"),
    Flag("token", "TOKEN", "the bearer token for the API server"),
    Flag("username", "NAME", "the user name for basic authentication"),
    Flag("password", "PASSWORD", "the password for basic authentication"),
    Flag("client-certificate", "FILE", "the certificate of the user"),
    Flag("client-key", "FILE", "the key of this certificate"),
    Flag("certificate-authority", "FILE", "the certificate of the authority that has signed the API server's"),
    Flag("tls-server-name", "NAME", "the name in the certificate of the API server (the host of its address)"),
    Flag("insecure-skip-tls-verify", "", "do not check the certificate of the API server"),
    Flag("as", "USER", "the user to impersonate"),
    Flag("as-uid", "UID", "the UID of the user to impersonate"),
    Flag("as-group", "GROUP", "a group to impersonate; may be repeated", repeated=True, whole=True),
    Flag("as-user-extra", "KEY=VALUE", "another attribute of the user to impersonate; may be repeated", repeated=True, whole=True),
)
FLAGS = (*SELECTION, *CHECK, *OUTPUT, *CONNECTION)
WITH_WORDS = {word: flag for flag in FLAGS for word in flag.words}

KUBECTL_ONLY = (
    *("cache-dir", "disable-compression", "kuberc", "log-flush-frequency", "match-server-version", "profile", "profile-output"),
    *("v", "vmodule", "warnings-as-errors"),
)
"""The flags of every command of kubectl that are not here: they are about kubectl itself."""

TRUE, FALSE = ("1", "t", "T", "TRUE", "true", "True"), ("0", "f", "F", "FALSE", "false", "False")
"""The values of a switch in the form ``--switch=VALUE`` (Go ``strconv.ParseBool``)."""

SECONDS_OF_UNIT = {"ns": 1e-9, "us": 1e-6, "\u00b5s": 1e-6, "\u03bcs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
"""The units of Go ``time.ParseDuration``, which knows the micro sign and the Greek letter."""

PART_OF_TIME = re.compile(rf"([0-9]+\.?[0-9]*|\.[0-9]+)({'|'.join(SECONDS_OF_UNIT)})")


def parse_flags(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the values by attribute: None or false for a flag that is not given. ``arguments`` has the words that are no flags.

    Raises UsageError, and SystemExit after --help.
    """
    return _parsed(_parser(with_help=True), arguments)


def parse_flags_before(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the values of the flags before a word that is completed, where --help and --version print nothing. Raises UsageError."""
    return _parsed(_parser(with_help=False), arguments)


def _parsed(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """Return the values by attribute. Raises UsageError."""
    ends = list(arguments).index("--") if "--" in arguments else len(arguments)
    try:
        found, others = parser.parse_known_args(_with_plain_switches(arguments[:ends]))
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from None
    unknown = [word for word in others if word.startswith("-")]
    if unknown:
        raise UsageError(_problem_of(unknown[0]))
    found.arguments = [*others, *arguments[ends + 1 :]]
    found.request_timeout_s = _seconds(found.request_timeout)
    if found.output is not None and found.output not in FORMATS:
        raise UsageError(f"the output format {found.output!r} is unknown{nearest(found.output, FORMATS)}; use one of {', '.join(FORMATS)}")
    if found.all_namespaces and found.namespace:
        raise UsageError("--all-namespaces and --namespace exclude each other; leave one of them out")
    return found


def _with_plain_switches(words: Sequence[str]) -> list[str]:
    """Return the words with ``--switch`` in place of ``--switch=true``, and without a switch that is false. Raises UsageError."""
    kept: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        flag = WITH_WORDS.get(name) if equals else None
        if flag is None or flag.metavar:
            kept.append(word)
        elif value in TRUE:
            kept.append(name)
        elif value in FALSE:
            kept = [other for other in kept if other not in flag.words]
        else:
            raise UsageError(f"{name}: {value!r} is neither true nor false")
    return kept


def _seconds(text: str | None) -> float | None:
    """Return the time in seconds, as kubectl reads it. None for an unset or empty time and for 0, which are no limit of their own.

    Raises UsageError.
    """
    if not text:
        return None
    unsigned = text.removeprefix("+")
    parts = PART_OF_TIME.findall(unsigned)
    if unsigned.isascii() and unsigned.isdecimal():
        seconds = float(unsigned)
    elif parts and "".join(number + unit for number, unit in parts) == unsigned:
        seconds = sum(float(number) * SECONDS_OF_UNIT[unit] for number, unit in parts)
    else:
        raise UsageError(f"--request-timeout: {text!r} is not a time; write seconds, or a number with a unit, such as 10s, 2m or 1h")
    return seconds or None


def _problem_of(word: str) -> str:
    name = word.partition("=")[0]
    if name.lstrip("-") in KUBECTL_ONLY or (name.startswith("-v") and name[2:].isdecimal()):
        return f"{name} is a flag of kubectl that {PROGRAM} does not have; leave it out"
    return f"{name} is not a flag{nearest(name, WITH_WORDS)}; `{PROGRAM} --help` lists the flags"


def _parser(*, with_help: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [KIND [NAME...] | KIND/NAME...] [-n NAMESPACE | -A] [-l SELECTOR] [-o FORMAT] [FLAG...]",
        description="Show on which nodes the replicas of Deployments and StatefulSets are, and find those that are all on one node.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=with_help,
        allow_abbrev=False,
        exit_on_error=False,
    )
    for title, flags in (("selection", SELECTION), ("check", CHECK), ("output", OUTPUT), ("connection", CONNECTION)):
        group = parser.add_argument_group(title)
        for flag in flags:
            if not flag.metavar:
                group.add_argument(*flag.words, dest=flag.attribute, action="store_true", help=flag.help)
            elif flag.whole:
                group.add_argument(*flag.words, dest=flag.attribute, action="append", metavar=flag.metavar, help=flag.help)
            elif flag.repeated:
                group.add_argument(*flag.words, dest=flag.attribute, action="extend", type=_names, metavar=flag.metavar, help=flag.help)
            else:
                kind = int if flag.metavar == "N" else str
                group.add_argument(*flag.words, dest=flag.attribute, type=kind, metavar=flag.metavar, help=flag.help)
    if with_help:
        parser.add_argument("--version", action="version", version=f"{PROGRAM} {version()}")
    return parser


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
