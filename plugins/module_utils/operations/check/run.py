# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The run of k8s_spread_check: read the cluster and check it."""

from __future__ import annotations

import typing as t
from collections.abc import Collection

from ...kube.client.api import KubeApi
from ...kube.client.errors import InvalidError
from ...kube.snapshot_reader import read_snapshot
from ...model.codec import replace
from ...model.gc_pause import gc_paused
from ...model.option_values import OptionError
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...spread.check import check_spread
from ...spread.options import CheckOptions, check_labels_exist, check_missing_namespaces
from ...spread.spread_report import SpreadReport
from ..common.scheduler_profiles import add_second_scheduler, read_scheduler_profiles


def run_check(
    api: KubeApi, options: CheckOptions, *, names: t.Optional[Collection[tuple[str, str]]] = None
) -> tuple[ClusterSnapshot, SpreadReport]:
    """Read one snapshot and check it.

    ``names``: the kind and the name of the workloads to check, of those that the options select. None means all of these.
    Raise OptionError (names that the cluster does not have) and KubeError.
    """
    label_selector = ",".join(options.label_selectors)
    profiles = read_scheduler_profiles(api, options.scheduler_config)
    try:
        snapshot = read_snapshot(
            api,
            namespaces=options.namespaces,
            kinds=options.kinds,
            label_selector=label_selector,
            for_scores=options.predict,
            profiles=profiles,
        )
    except InvalidError as error:
        if not label_selector:
            raise
        raise OptionError(f"label_selectors: {error}") from error
    if options.predict:
        add_second_scheduler(api, snapshot)
    unreadable = {entry.namespace for entry in snapshot.skipped} | {one.metadata.name for one in snapshot.undecodable_of("Namespace")}
    check_missing_namespaces(options.namespaces, snapshot.namespaces, unreadable)
    check_labels_exist(options.topology_keys, snapshot.nodes.values())
    with gc_paused():
        report = check_spread(snapshot, options, names=names)
    if label_selector and report.reason is None and not report.workloads:
        report = replace(report, reason=_no_workload(options, label_selector))
    return snapshot, report


def _no_workload(options: CheckOptions, label_selector: str) -> Reason:
    text = f"no {' or '.join(options.kinds)} in the chosen namespaces has the labels {label_selector}; check label_selectors"
    return Reason("no_workload", text)
