# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""``kubectl spread``: the check of k8s_spread_check without Ansible. It reads the cluster, prints, and changes nothing."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
import typing as t
from collections.abc import Mapping, Sequence

from ...plugins.module_utils.kube.client.api import KubeApi
from ...plugins.module_utils.kube.client.early_denials import EarlyDenials
from ...plugins.module_utils.kube.client.errors import ConfigurationError, KubeError
from ...plugins.module_utils.kube.client.open_transport import open_transport_with
from ...plugins.module_utils.model.gc_pause import gc_paused
from ...plugins.module_utils.model.option_values import OptionError
from ...plugins.module_utils.operations.check.result import check_result, nodes_to_result, read_error
from ...plugins.module_utils.operations.check.run import run_check
from ...plugins.module_utils.spread.options import CheckOptions, check_options
from ...plugins.module_utils.spread.verdict import COLLAPSED, SKEWED
from .connection import ClusterTarget, find_target
from .flags import KIND_WORDS, USER_AGENT, UsageError, parse_flags
from .output import write_result

EVEN, UNEVEN, CONFIGURATION, API, INTERNAL, INTERRUPTED = 0, 1, 2, 3, 4, 130
"""The exit codes. INTERNAL is a defect of the program; Python's own code for it is 1, which means here that something is collapsed."""

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
    target = find_target(flags, environment)
    options = _options(flags, target)
    with gc_paused():
        result = _result(target, options)
    error = read_error(result)
    if error:
        return _failed(error, API)
    write_result(result, flags.output or "", cluster=target.cluster, environment=environment, output=output)
    if not result["summary"]["checked"] and not result["reason"] and not flags.all_namespaces:
        namespaces = ", ".join(options.namespaces or ())
        print(f"No {' or '.join(options.kinds)} in {namespaces}. --all-namespaces checks all namespaces.", file=sys.stderr)
    return UNEVEN if result["summary"][COLLAPSED] + result["summary"][SKEWED] else EVEN


def _options(flags: argparse.Namespace, target: ClusterTarget) -> CheckOptions:
    """Return the options of the check. Raises OptionError."""
    return check_options(
        {
            "namespaces": None if flags.all_namespaces else flags.namespace or [target.namespace],
            "exclude_namespaces": flags.exclude_namespace,
            # Nothing is moved, so every namespace takes part, also without the consent that the playbook requires.
            "namespace_annotation": flags.namespace_annotation or "",
            "label_selectors": [flags.selector] if flags.selector else None,
            "kinds": _kinds(flags.kind),
            "topology_keys": flags.topology_key or list(CheckOptions().topology_keys),
            "max_skew": flags.max_skew,
            "min_ready_nodes": CheckOptions().min_ready_nodes if flags.min_ready_nodes is None else flags.min_ready_nodes,
            "predict": not flags.no_predict,
            "max_attempts": CheckOptions().max_attempts,
            "scheduler_config": flags.scheduler_config,
        }
    )


def _kinds(names: list[str] | None) -> list[str] | None:
    """Return the kinds by their names in the API. Raises UsageError for a word that is not one of those in ``KIND_WORDS``."""
    known = {word: kind for kind, words in KIND_WORDS.items() for word in words}
    unknown = [name for name in names or () if name.lower() not in known]
    if unknown:
        raise UsageError(f"--kind: {unknown[0]!r} is not one of {', '.join(KIND_WORDS)}")
    return None if names is None else [known[name.lower()] for name in names]


def _result(target: ClusterTarget, options: CheckOptions) -> dict[str, t.Any]:
    """Return the result of k8s_spread_check with all workloads and nodes. Raises KubeError and OptionError."""
    api = KubeApi(open_transport_with(target.options, user_agent=USER_AGENT), denials=EarlyDenials(time.monotonic))
    snapshot, report = run_check(api, options)
    return {**check_result(report, options, include_healthy=True), "node_list": nodes_to_result(snapshot)}


def _with_flag(text: str) -> str:
    """Return the text of an OptionError with the name of the flag in place of the option."""
    name = text.replace(":", " ").partition(" ")[0]
    return FLAG_OF_OPTION.get(name, name) + text[len(name) :]


def _failed(text: str, code: int) -> int:
    print(f"error: {text}", file=sys.stderr)
    return code
