# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reasons for which network namespaces cannot be made."""

from __future__ import annotations

import os
import shutil

import pytest

from lab.network_namespaces import missing_privilege


def test_a_missing_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert "iproute2" in missing_privilege()


def test_a_user_without_root_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/sbin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert missing_privilege() == "network namespaces need root"
