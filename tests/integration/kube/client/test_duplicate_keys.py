# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kubeconfig with a key that occurs twice means the same to kubectl and to this collection."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.kubeconfig_settings import settings_of_kubeconfig
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.kubeconfig_source import Source

from lab import binaries

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: first
current-context: second
contexts:
- {name: first, context: {cluster: one, user: somebody}}
- {name: second, context: {cluster: two, user: somebody}}
clusters:
- {name: one, cluster: {server: "https://one.example:6443"}}
- name: two
  cluster:
    server: https://two.example:6443
    server: https://three.example:6443
users:
- {name: somebody, user: {token: secret}}
"""


def test_last_of_two_equal_keys_of_a_kubeconfig_counts_as_with_kubectl(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(KUBECONFIG)
    command = [str(binaries.ensure() / "kubectl"), "--kubeconfig", str(file), "config", "view", "--minify", "-o", "jsonpath={..server}"]
    of_kubectl = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "HOME": str(tmp_path)}).stdout
    assert of_kubectl == "https://three.example:6443"
    assert settings_of_kubeconfig(Source(kubeconfig=str(file))).server == of_kubectl
