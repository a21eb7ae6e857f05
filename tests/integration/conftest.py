# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of the integration tests: the lab's clusters and namespaces."""

from __future__ import annotations

from lab.pytest_fixtures import fresh_cluster, fresh_module_cluster, lab_cluster, lab_folder, namespaces

__all__ = ["fresh_cluster", "fresh_module_cluster", "lab_cluster", "lab_folder", "namespaces"]
