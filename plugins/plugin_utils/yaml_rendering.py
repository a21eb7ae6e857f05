# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""New YAML texts for kube-scheduler, which reads them with Go's library."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config import go_yaml

_LONG_LINE = 10**6


def render(value):
    """Return the value as a YAML text in block style, without a final line break."""
    return go_yaml.dump(value, width=_LONG_LINE).removesuffix("\n").removesuffix("\n...")


def render_flow(value):
    """Return the value as a YAML text in one line."""
    return go_yaml.dump(value, default_flow_style=True, allow_unicode=False, width=_LONG_LINE).strip().removesuffix("\n...")
