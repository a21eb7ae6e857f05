# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The address to listen on, in the form that Go programs accept."""

from __future__ import annotations

import re
import typing as t

from ...plugins.module_utils.model.values.shown import shown_value

_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%a-z]+)\]|(?P<host>[^:\[\]\s]*)):(?P<port>[0-9]{1,5})")


class Address(t.NamedTuple):
    """A host and a port. ``host`` is empty for all addresses of the machine."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str, name: str = "listen_address") -> Address:
    """Return the address in a text such as ``127.0.0.1:9235``, ``[::1]:9235`` or ``:9235``. Raises ValueError that names the setting."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        raise ValueError(f"{name} is {shown_value(text)}: write it as HOST:PORT, [IPV6]:PORT or :PORT")
    return Address(found["v6"] or found["host"] or "", int(found["port"]))
