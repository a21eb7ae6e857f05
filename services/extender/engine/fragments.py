# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The parts of a prioritize answer: the JSON of one node with one score, encoded before the request comes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter

from ....plugins.module_utils.model.codec import encode_json

SCORES = tuple(range(11))
"""The integer scores of an extender: kube-scheduler ``extender/v1/types.go``, MinExtenderPriority to MaxExtenderPriority."""


def fragment(name: str, score: int) -> bytes:
    """Return the JSON of one node in a HostPriorityList."""
    return b'{"Host":%b,"Score":%d}' % (encode_json(name), score)


def fragments_of(name: str) -> tuple[bytes, ...]:
    """Return the fragments of one node, by score."""
    start = b'{"Host":%b,"Score":' % encode_json(name)
    return tuple(b"%b%d}" % (start, score) for score in SCORES)


class Table:
    """The fragment of each node. A node that is not in the table gets the score ``default``."""

    __slots__ = ("default", "fragments")

    def __init__(self, names: Sequence[str], fragments: Iterable[bytes], default: int) -> None:
        self.fragments = dict(zip(names, fragments, strict=True))
        self.default = default


def answer_of(table: Table, names: Sequence[str]) -> bytes:
    """Return the JSON of the HostPriorityList of these nodes, in their order."""
    try:
        # The fastest look-up of many keys: one call for all, in a plain dict. A single name would not give a tuple.
        found: Iterable[bytes] = itemgetter(*names)(table.fragments) if len(names) > 1 else map(table.fragments.__getitem__, names)
        return b"[%b]" % b",".join(found)
    except KeyError:
        # The new fragments are not stored, because a request could name any number of nodes.
        known, default = table.fragments, table.default
        return b"[%b]" % b",".join([known.get(name) or fragment(name, default) for name in names])
