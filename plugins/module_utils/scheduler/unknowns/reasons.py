# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The reasons why results are uncertain that concern both the filters and the scores."""

from __future__ import annotations

from ...model.reason import Reason

FOREIGN_SCHEDULER = Reason("foreign_scheduler", "the profile of the pod's scheduler is not known: see scheduler_config")
PODS_NOT_READABLE = Reason("pods_not_readable", "pods of some namespaces could not be read, so the free capacity of the nodes is unknown")
