# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The bodies of filter and prioritize as kube-scheduler writes them, decoded in one pass.

Almost all names in a request are those of nodes that the extender knows. The decoder finds a known name by its bytes, and returns the text
that the tables have as key. A new text would have to be made, hashed and compared, which takes a third of the time of a request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .....plugins.module_utils.model.codec import DecodeError, Raw, Struct, decode_json, decoder_of_known_texts, field
from .request_pod import PodSource


class NodeList(Struct):
    """A NodeList. Each node stays undecoded, because the answer contains it unchanged."""

    items: list[Raw] | None = None


class NodesArgs(Struct):
    """The nodes in the body of filter and prioritize."""

    node_names: list[str] | None = field(default=None, name="NodeNames")
    nodes: NodeList | None = field(default=None, name="Nodes")


class OrdinaryArgs(NodesArgs):
    """The body of filter and prioritize."""

    pod: PodSource | None = field(default=None, name="Pod")


def ordinary_args(body: bytes) -> OrdinaryArgs | None:
    """Return the decoded body, or None for a body in another form."""
    try:
        return decode_json(OrdinaryArgs, body)
    except DecodeError:
        return None


class KnownNames:
    """Decodes bodies with known names. After a body with another name all are decoded in the plain way, until there are other nodes."""

    def __init__(self) -> None:
        self._names: Sequence[str] = ()
        self._decode: Callable[[bytes], OrdinaryArgs | None] | None = None

    def learn(self, names: Sequence[str]) -> None:
        """Take over the names of the nodes. For 5,000 new names it takes 10 ms, so that requests do not wait for it."""
        if names != self._names:
            self._decode = decoder_of_known_texts(OrdinaryArgs, "node_names", "NodeNames", names)
            self._names = names

    def args(self, body: bytes) -> OrdinaryArgs | None:
        """Return the same as ``ordinary_args``."""
        decode = self._decode
        if decode is None:
            return ordinary_args(body)
        found = decode(body)
        if found is None:
            found = ordinary_args(body)
            if found is not None and self._decode is decode:
                self._decode = None
        return found
