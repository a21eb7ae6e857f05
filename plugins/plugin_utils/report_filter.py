# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The report of the filters that show the results of a rebalance run."""

from __future__ import annotations

from ansible.errors import AnsibleFilterError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.report.rows import ReportError, build_report


def report_for(name, before, **results):
    """Return the report for the filter of this name. ``results``: those of ``build_report``.

    Raises AnsibleFilterError if an argument is not a result of the modules.
    """
    try:
        return build_report(before, **results)
    except ReportError as problem:
        raise AnsibleFilterError(f"{name}: {problem}") from problem
