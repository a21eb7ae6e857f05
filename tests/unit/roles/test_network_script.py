# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The program of ``extended_scheduler`` that finds names which a host does not resolve."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tools.paths import ROOT

SCRIPT = ROOT / "roles" / "extended_scheduler" / "files" / "network.sh"


@pytest.mark.parametrize(
    ("names", "unresolved"),
    [
        (["localhost", "203.0.113.9", "2001:db8::1"], []),  # addresses without a name
        (["prometheus.monitoring.svc.invalid", "localhost"], ["prometheus.monitoring.svc.invalid"]),
        ([], []),
    ],
)
def test_addresses_need_no_name(names: list[str], unresolved: list[str], tmp_path: Path) -> None:
    # The host has the programs already, so its listeners do not matter.
    environment = {**os.environ, "NETWORK_OWN": str(tmp_path), "NETWORK_PORTS": "", "NETWORK_NAMES": "\n".join(names)}
    ended = subprocess.run(["sh", str(SCRIPT)], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout.splitlines() == [f"unresolved {name}" for name in unresolved]
