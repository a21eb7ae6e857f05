# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The wheel in an empty virtual environment, and kubectl that finds its programs on PATH."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import binaries
from lab.cluster import Cluster
from tests.integration.modules.conftest import cluster, modules, namespace
from tools import wheel

__all__ = ["cluster", "installed", "kubectl", "modules", "namespace"]


@dataclass(frozen=True)
class Kubectl:
    """The real kubectl, beside the programs of the wheel."""

    programs: Path
    kubeconfig: Path

    def run(self, *arguments: str, kubeconfig: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run kubectl to its end."""
        # The folder of kubectl has other programs of the lab, and none of the wheel.
        variables = {
            "PATH": f"{self.programs}:{binaries.ensure()}:{os.defpath}",
            "KUBECONFIG": str(kubeconfig or self.kubeconfig),
            "HOME": str(self.programs),
            **environment,
        }
        return subprocess.run(["kubectl", *arguments], env=variables, capture_output=True, text=True, timeout=120)

    def spread(self, *flags: str, kubeconfig: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run ``kubectl spread``."""
        return self.run("spread", *flags, kubeconfig=kubeconfig, **environment)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the programs of the wheel. pip installs it into an empty environment, with what it requires and nothing else."""
    folder = tmp_path_factory.mktemp("wheel")
    file = wheel.build(folder)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    programs = folder / "venv" / "bin"
    subprocess.run([str(programs / "pip"), "install", "--quiet", "--no-compile", "--disable-pip-version-check", str(file)], check=True)
    return programs


@pytest.fixture
def kubectl(cluster: Cluster, installed: Path) -> Kubectl:
    return Kubectl(installed, cluster.kubeconfig)
