# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module imports only what its run needs: Ansible packs each source that an import reaches, and each run compiles it again."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.unit.repository.arrows import COLLECTION, MODULE_UTILS
from tools.paths import COLLECTIONS

OPTIONS_OF_KUBERNETES_CORE = "ansible_collections.kubernetes.core.plugins.module_utils.args_common"


def loaded_by(module: str) -> set[str]:
    """The names of all modules that the import of a module file loads."""
    program = f"import sys, {COLLECTION}.plugins.modules.{module}; print(*sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(COLLECTIONS)}, capture_output=True, text=True, check=True
    )
    return set(answer.stdout.split())


@pytest.mark.parametrize("module", ["k8s_spread_check", "k8s_rollout_restart", "k8s_critical_rescue", "k8s_namespace_objects"])
def test_a_module_starts_without_the_kubernetes_client_and_with_nothing_of_kubernetes_core_but_its_options(module: str) -> None:
    loaded = loaded_by(module)
    assert "kubernetes" not in loaded and "asyncio" not in loaded
    of_core = {name for name in loaded if name.startswith("ansible_collections.kubernetes.core.plugins.module_utils.")}
    assert of_core == {OPTIONS_OF_KUBERNETES_CORE}


def test_a_check_that_finds_nothing_uneven_compiles_no_simulation() -> None:
    loaded = loaded_by("k8s_spread_check")
    folders = {
        "spread": (
            "prediction.restart_simulation",
            "prediction.predictor",
            "preconditions.restart",
            "preconditions.workload_budgets",
            "preconditions.admission.admission",
            "preconditions.admission.quota",
            "preconditions.admission.quota_index",
            "preconditions.unhealthy_pods",
            "stuck_pods",
            "topology.domain_tuples",
        ),
        "scheduler": ("cluster_state", "affinity_term_index", "filter_cache", "node_info", "pod_requests", "storage.storage_index"),
    }
    unwanted = {f"{MODULE_UTILS}.{folder}.{name}" for folder, names in folders.items() for name in names}
    assert unwanted & loaded == set()


def test_a_check_compiles_nothing_for_logins_by_plugins_or_for_proposals_of_names_before_it_needs_them() -> None:
    loaded = loaded_by("k8s_spread_check")
    assert {f"{MODULE_UTILS}.kube.client.config.kubernetes_client", "difflib"} & loaded == set()
