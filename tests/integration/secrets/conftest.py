# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of Ansible in the oldest supported version and in the newest one."""

from __future__ import annotations

from tests.ansible_core import commands

__all__ = ["commands"]
