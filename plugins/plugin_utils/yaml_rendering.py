# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""New YAML texts for kube-scheduler, which reads them with Go's library."""

from __future__ import annotations

import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.config.go_yaml import (
    GO_FLOAT,
    GO_INTEGER,
    GO_SHORT_BOOL,
)

_LONG_LINE = 10**6


class _Dumper(yaml.SafeDumper):
    """A dumper without aliases, which quotes texts that Go's library would read as numbers or as true and false."""

    def ignore_aliases(self, _data):
        """Write equal parts again."""
        return True


def _represent_text(dumper, text):
    quoted = any(pattern.fullmatch(text) for pattern in (GO_FLOAT, GO_INTEGER, GO_SHORT_BOOL))
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'" if quoted else None)


_Dumper.add_representer(str, _represent_text)


def render(value):
    """Return the value as a YAML text in block style, without a final line break."""
    options = {"default_flow_style": False, "sort_keys": False, "allow_unicode": True, "width": _LONG_LINE}
    return yaml.dump(value, Dumper=_Dumper, **options).removesuffix("\n").removesuffix("\n...")


def render_flow(value):
    """Return the value as a YAML text in one line."""
    return yaml.dump(value, Dumper=_Dumper, default_flow_style=True, sort_keys=False, width=_LONG_LINE).strip().removesuffix("\n...")
