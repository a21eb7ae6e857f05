# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plugin for all tests."""

from __future__ import annotations

from tests.repeats import Repeats

pytest_configure = Repeats.register
