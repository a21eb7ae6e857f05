# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The flags of ``kubectl spread``. Those for the connection and the selection have the names and the meaning that they have in kubectl."""

from __future__ import annotations

import argparse
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
  kubectl spread -n shop --max-skew=1        one namespace; a difference of two replicas is reported, too
  kubectl spread -A --topology-key=topology.kubernetes.io/zone
  kubectl spread -A -o json | jq .summary    the result for programs
  kubectl spread -A -o html > spread.html    a page with search, sorting, and zones that open into nodes

exit codes: 0 nothing collapsed or skewed, 1 some workload is, 2 wrong flags or connection settings, 3 API server unreachable or forbidden.
Nothing is changed in the cluster. NO_COLOR=1 switches the colours off."""


class UsageError(Exception):
    """A flag cannot be used. The text names it and what can be used."""


class Flag(t.NamedTuple):
    """A flag with its help. ``metavar`` is empty for a switch. ``repeated``: it may be given several times, or with a list."""

    name: str
    metavar: str
    help: str
    short: str = ""
    repeated: bool = False

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
    Flag("namespace-annotation", "KEY=VALUE", "only namespaces with this annotation, such as collectdeployments=allow (any)"),
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
    Flag("server", "URL", "the address of the API server", short="s"),
    Flag("token", "TOKEN", "the bearer token for the API server"),
    Flag("certificate-authority", "FILE", "the certificate of the authority that has signed the API server's"),
    Flag("insecure-skip-tls-verify", "", "do not check the certificate of the API server"),
    Flag("as", "USER", "the user to impersonate"),
    Flag("as-group", "GROUP", "a group to impersonate; may be repeated", repeated=True),
)
FLAGS = (*SELECTION, *CHECK, *OUTPUT, *CONNECTION)
WITH_WORDS = {word: flag for flag in FLAGS for word in flag.words}


def parse_flags(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the values by attribute: None or false for a flag that is not given. Raises UsageError, and SystemExit after --help."""
    try:
        found, unknown = _parser().parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise UsageError(str(error)) from None
    if unknown:
        raise UsageError(_problem_of(unknown[0]))
    if found.output is not None and found.output not in FORMATS:
        raise UsageError(f"the output format {found.output!r} is unknown{nearest(found.output, FORMATS)}; use one of {', '.join(FORMATS)}")
    if found.all_namespaces and found.namespace:
        raise UsageError("--all-namespaces and --namespace exclude each other; leave one of them out")
    return found


def _problem_of(word: str) -> str:
    name = word.partition("=")[0]
    if name.startswith("-"):
        return f"{name} is not a flag{nearest(name, WITH_WORDS)}; `{PROGRAM} --help` lists the flags"
    return f"{word} is one argument too many: {PROGRAM} takes only flags, and --selector selects workloads by their labels"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} [-n NAMESPACE | -A] [-l SELECTOR] [-o FORMAT] [FLAG...]",
        description="Show on which nodes the replicas of Deployments and StatefulSets are, and find those that are all on one node.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
        exit_on_error=False,
    )
    for title, flags in (("selection", SELECTION), ("check", CHECK), ("output", OUTPUT), ("connection", CONNECTION)):
        group = parser.add_argument_group(title)
        for flag in flags:
            if not flag.metavar:
                group.add_argument(*flag.words, dest=flag.attribute, action="store_true", help=flag.help)
            elif flag.repeated:
                group.add_argument(*flag.words, dest=flag.attribute, action="extend", type=_names, metavar=flag.metavar, help=flag.help)
            else:
                kind = int if flag.metavar == "N" else str
                group.add_argument(*flag.words, dest=flag.attribute, type=kind, metavar=flag.metavar, help=flag.help)
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {version()}")
    return parser


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]
