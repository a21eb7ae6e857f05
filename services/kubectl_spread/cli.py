# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""``kubectl spread``: the check of k8s_spread_check without Ansible. It reads the cluster, prints, and changes nothing."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import typing as t
from collections.abc import Mapping, Sequence

from ...plugins.module_utils.kube.client.errors import ConfigurationError, KubeError
from ...plugins.module_utils.model.gc_pause import gc_paused
from ...plugins.module_utils.model.messages import printable
from ...plugins.module_utils.model.option_values import OptionError
from ...plugins.module_utils.operations.check.result import check_result, nodes_to_result, read_error
from ...plugins.module_utils.operations.check.run import run_check
from ...plugins.module_utils.spread.options import CheckOptions, check_options
from ...plugins.module_utils.spread.verdict import COLLAPSED, SKEWED
from .connection import ClusterTarget, find_target, open_api
from .flags import UsageError, parse_flags
from .output import write_result
from .workload_names import NamedWorkloads, kind_of, missing_workloads, named_workloads

EVEN, UNEVEN, CONFIGURATION, API, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""The exit codes. INTERNAL is a defect of the program; Python's own code for it is 1, which means here that something is collapsed."""

NOT_FOUND = 1
"""The exit code if a workload that is named does not exist, as in kubectl."""

FLAG_OF_OPTION = {
    "namespaces": "--namespace",
    "exclude_namespaces": "--exclude-namespace",
    "namespace_annotation": "--namespace-annotation",
    "label_selectors": "--selector",
    "topology_keys": "--topology-key",
    "max_skew": "--max-skew",
    "min_ready_nodes": "--min-ready-nodes",
    "scheduler_config": "--scheduler-config",
}
"""The flags by the options of the check, whose errors begin with the name of the option."""


def main() -> int:
    """Run the program with the arguments and the environment of the process. Return the exit code."""
    return run(sys.argv[1:], os.environ, sys.stdout)


def run(arguments: Sequence[str], environment: Mapping[str, str], output: t.TextIO) -> int:
    """Check the cluster and write the result to ``output``. Return the exit code. Errors are written to standard error."""
    try:
        return _checked(arguments, environment, output)
    except (UsageError, ConfigurationError) as error:
        return _failed(str(error), CONFIGURATION)
    except OptionError as error:
        return _failed(_with_flag(str(error)), CONFIGURATION)
    except KubeError as error:
        return _failed(str(error), API)
    except KeyboardInterrupt:
        return INTERRUPTED
    # An error without a handler would end the process with the code that means "collapsed".
    except Exception:
        traceback.print_exc()
        return _failed("this is a defect of kubectl spread; please report it with the lines above", INTERNAL)


def _checked(arguments: Sequence[str], environment: Mapping[str, str], output: t.TextIO) -> int:
    flags = parse_flags(arguments)
    named = _named(flags)
    target = find_target(flags, environment)
    options = _options(flags, target, named)
    with gc_paused():
        result, missing = _result(target, options, named)
    error = read_error(result)
    if error:
        return _failed(error, API)
    for text in missing:
        _failed(text, NOT_FOUND)
    if missing and len(missing) == len(named.names):
        return NOT_FOUND
    write_result(result, flags.output or "", environment=environment, output=output)
    if not result["summary"]["checked"] and not result["reason"] and not flags.all_namespaces:
        namespaces = ", ".join(options.namespaces or ())
        print(f"No {' or '.join(options.kinds)} in {namespaces}. --all-namespaces checks all namespaces.", file=sys.stderr)
    if missing:
        return NOT_FOUND
    return UNEVEN if result["summary"][COLLAPSED] + result["summary"][SKEWED] else EVEN


def _named(flags: argparse.Namespace) -> NamedWorkloads:
    """Return the workloads that the arguments name. Raises UsageError, as kubectl does for the same flags."""
    named = named_workloads(flags.arguments)
    if named.kinds and flags.kind:
        raise UsageError(f"--kind and the kind {flags.arguments[0]!r} exclude each other; leave one of them out")
    if named.names and flags.all_namespaces:
        raise UsageError("a workload cannot be named in all namespaces; give its namespace with --namespace")
    if named.names and flags.selector:
        raise UsageError("a name and --selector exclude each other; leave one of them out")
    return named


def _options(flags: argparse.Namespace, target: ClusterTarget, named: NamedWorkloads) -> CheckOptions:
    """Return the options of the check. Raises OptionError."""
    return check_options(
        {
            "namespaces": None if flags.all_namespaces else flags.namespace or [target.namespace],
            "exclude_namespaces": flags.exclude_namespace,
            # Nothing is moved, so every namespace takes part, also without the consent that the playbook requires.
            "namespace_annotation": flags.namespace_annotation or "",
            "label_selectors": [flags.selector] if flags.selector else None,
            "kinds": list(named.kinds) or _kinds(flags.kind),
            "topology_keys": flags.topology_key or list(CheckOptions().topology_keys),
            "max_skew": flags.max_skew,
            "min_ready_nodes": CheckOptions().min_ready_nodes if flags.min_ready_nodes is None else flags.min_ready_nodes,
            "predict": not flags.no_predict,
            "max_attempts": CheckOptions().max_attempts,
            "scheduler_config": flags.scheduler_config,
        }
    )


def _kinds(names: list[str] | None) -> list[str] | None:
    """Return the kinds by their names in the API. Raises UsageError for a word that names none."""
    try:
        return None if names is None else [kind_of(name) for name in names]
    except UsageError as error:
        raise UsageError(f"--kind: {error}") from None


def _result(target: ClusterTarget, options: CheckOptions, named: NamedWorkloads) -> tuple[dict[str, t.Any], list[str]]:
    """Return the result of k8s_spread_check with all workloads and nodes, and an error for each workload that does not exist.

    Raises KubeError and OptionError.
    """
    api = open_api(target)
    snapshot, report = run_check(api, options, names=named.names or None)
    missing = missing_workloads(snapshot, options, named.names)
    result = {"cluster": api.cluster.fields(), **check_result(report, options, include_healthy=True)}
    return {**result, "node_list": nodes_to_result(snapshot)}, missing


def _with_flag(text: str) -> str:
    """Return the text of an OptionError with the name of the flag in place of the option."""
    name = text.replace(":", " ").partition(" ")[0]
    return FLAG_OF_OPTION.get(name, name) + text[len(name) :]


def _failed(text: str, code: int) -> int:
    """Print an error and return the exit code. The text can have names of the kubeconfig, and therefore control characters."""
    print(f"error: {printable(text)}", file=sys.stderr)
    return code
