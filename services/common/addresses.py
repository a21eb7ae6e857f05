# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The address to listen on, in the form that Go programs accept."""

from __future__ import annotations

import re
import typing as t

from .kinds import Kind

_ADDRESS = re.compile(r"(?:\[(?P<v6>[0-9A-Fa-f:.%a-z]+)\]|(?P<host>[^:\[\]\s]*)):(?P<port>[0-9]{1,5})")


class Address(t.NamedTuple):
    """A host and a port. ``host`` is empty for all addresses of the machine."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: t.Any) -> Address:
    """Return the address in a text such as ``127.0.0.1:9235``, ``[::1]:9235`` or ``:9235``. YAML reads a port alone as a number.

    Raises ValueError.
    """
    found = _ADDRESS.fullmatch(text) if isinstance(text, str) else None
    if found is None or int(found["port"]) > 65535:
        raise ValueError("write it as HOST:PORT, [IPV6]:PORT or :PORT")
    return Address(found["v6"] or found["host"] or "", int(found["port"]))


ADDRESS = Kind(parse_address, "HOST:PORT")
NO_ADDRESS = Kind(lambda text: parse_address(text) if text else None, "HOST:PORT")
"""An address, or an empty text for none."""
