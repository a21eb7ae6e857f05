# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module imports only what its run needs: Ansible packs each source that an import reaches, and each run compiles it again.

Each file loads without the libraries that it does not need.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.style.arrows import COLLECTION, MODULE_UTILS, SOURCES
from tests.style.test_import_arrows import THIRD_PARTY
from tools.paths import COLLECTIONS, ROOT

OPTIONS_OF_KUBERNETES_CORE = "ansible_collections.kubernetes.core.plugins.module_utils.args_common"


def loaded_by(module: str) -> set[str]:
    """The names of all modules that the import of a module file loads."""
    program = f"import sys, {COLLECTION}.plugins.modules.{module}; print(*sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(COLLECTIONS)}, capture_output=True, text=True, check=True
    )
    return set(answer.stdout.split())


MODULES = ("k8s_apply_set", "k8s_cluster_identity", "k8s_cronjob_run", "k8s_maintenance_wait")
MODULES += ("k8s_spread_check", "k8s_rollout_restart", "k8s_critical_rescue", "scheduler_cluster")


@pytest.mark.parametrize("module", MODULES)
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


IMPORT_ALL = """
import importlib
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if any(name == blocked or name.startswith(blocked + ".") for blocked in BLOCKED):
            raise ModuleNotFoundError("blocked by the test: " + name, name=name)
        return None

BLOCKED, modules = (words.split(",") for words in sys.argv[1:])
sys.meta_path.insert(0, Blocker())
for module in modules:
    importlib.import_module(module)
"""


@pytest.mark.parametrize(
    "blocked",
    [
        pytest.param(("ansible", "ansible_collections.kubernetes"), id="without ansible-core"),
        pytest.param(tuple(THIRD_PARTY), id="without any library: sanity tests and documentation builds"),
    ],
)
def test_each_file_but_one_loads(blocked: tuple[str, ...]) -> None:
    sources = SOURCES if "msgspec" not in blocked else SOURCES[:1]
    modules = [_module_name(file) for source in sources for file in sorted((ROOT / source).rglob("*.py"))]
    modules.remove(f"{MODULE_UTILS}.kube.client.ansible_connection")
    answer = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, ",".join(blocked), ",".join(modules)],
        env={"PYTHONPATH": str(COLLECTIONS)},
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 0, answer.stderr


def _module_name(file: Path) -> str:
    return ".".join([COLLECTION, *file.relative_to(ROOT).with_suffix("").parts])
