# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The real kube-scheduler accepts and refuses the texts that the unit tests expect it to."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import binaries
from tests.integration.scheduler_config.scheduler_program import ask, existing_files
from tests.unit.scheduler_config.strict_texts import TEXTS


@pytest.mark.parametrize("name", TEXTS)
def test_the_scheduler_decodes_strictly(name: str, tmp_path: Path) -> None:
    text, accepted = TEXTS[name]
    whole = text.replace("KUBECONFIG", existing_files(tmp_path)["kubeconfig"])
    answer = ask(str(binaries.ensure() / "kube-scheduler"), whole, tmp_path / "config.yaml")
    assert answer.accepted == accepted, answer.text
