# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The version of Kubernetes under test, and skips for the features that it lacks. LAB_KUBERNETES chooses it."""

from __future__ import annotations

import pytest

from lab.binaries import kubernetes_version

VERSION = kubernetes_version()
"""The version of the lab's clusters, such as 1.36.3."""
MINOR = int(VERSION.split(".")[1])


def needs_kubernetes(version: str, feature: str) -> None:
    """Skip the test, or the tests of the fixture that calls this, on Kubernetes before ``version``, such as 1.36."""
    if int(version.split(".")[1]) > MINOR:
        pytest.skip(f"{feature} needs Kubernetes {version} or later, and this is {VERSION}")
