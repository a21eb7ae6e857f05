# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""k8s_spread_check as a process of its own, as Ansible starts it, and what Ansible itself takes to start."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from lab.cluster import Cluster
from tests.bench.measure import Command, python

MODULE = "ansible_collections.onprem.kube_scheduling.plugins.modules.k8s_spread_check"


def module(cluster: Cluster, output: Path, *, predict: bool = True, **options: Any) -> Command:
    """The check over everything, with further options of the module; its result is in ``output``."""
    arguments = {"ANSIBLE_MODULE_ARGS": {"kubeconfig": str(cluster.kubeconfig), "predict": predict, **options}}
    return python(MODULE, input=json.dumps(arguments), output=output)


def ansible_start() -> Command:
    """Ansible with a module that does nothing."""
    return Command([str(Path(sys.executable).with_name("ansible")), "localhost", "-m", "ansible.builtin.ping"])
