# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The label sets of series. Equal label sets are decoded, kept and mapped to a node once."""

from __future__ import annotations

import typing as t
from collections.abc import Iterable, Iterator, Mapping

from .....plugins.module_utils.model.codec import decode_json

TARGET_LABELS = frozenset(
    (
        *("instance", "job", "endpoint", "service", "pod", "namespace", "container"),
        *("cluster", "replica", "prometheus", "prometheus_replica", "node", "kubernetes_node", "hostname", "__name__"),
    )
)
"""Labels that tell which target was scraped and by which server. The other labels tell what was measured, such as a device."""

INSTANCE = "instance"

UNUSED_REFRESHES = 4
"""Refreshes after which a label set that no answer has had is removed."""


class SeriesLabels(Mapping[str, str]):
    """The labels of a series, in less than two thirds of the memory of a dictionary. ``names``: one object for all that have the same."""

    __slots__ = ("_values", "names")

    def __init__(self, names: tuple[str, ...], values: tuple[str, ...]) -> None:
        self.names, self._values = names, values

    def __getitem__(self, name: str) -> str:
        """Return the value of a label. Raises KeyError."""
        try:
            return self._values[self.names.index(name)]
        except ValueError:
            raise KeyError(name) from None

    def get(self, key: str, default: t.Any = None) -> t.Any:
        """Return the value of a label, or ``default``. Agents call it for each series."""
        return self._values[self.names.index(key)] if key in self.names else default

    def __iter__(self) -> Iterator[str]:
        """Return the names."""
        return iter(self.names)

    def __len__(self) -> int:
        """Return the number of labels."""
        return len(self.names)

    def __repr__(self) -> str:
        """Return the text of a dictionary with the labels."""
        return repr(dict(self))


Target = tuple[str, str]
"""The values of the label of the node and of ``instance``: one exporter."""


class LabelSet:
    """The labels of one or more series. ``metric``: their JSON as Prometheus writes it.

    ``subject``: the labels without those of the target. Two series of one node and one query with the same subject measure the same.
    ``node``: the node's name, or None. ``why``: the reason if there is no node, or if its name is only assumed. ``is_own``: the series
    itself has the name or address of the node. No other series was needed. These hold for ``table``, the number of the table of nodes.
    """

    __slots__ = ("is_own", "labels", "metric", "node", "subject", "table", "target", "used_in", "why")

    def __init__(self, metric: bytes, labels: SeriesLabels, target: Target, subject: tuple[str, ...]) -> None:
        self.metric, self.labels, self.target, self.subject = metric, labels, target, subject
        self.node: str | None = None
        self.why = ""
        self.is_own = False
        self.table = -1
        self.used_in = 0


class LabelSets:
    """All label sets. ``known``: by the bytes that Prometheus writes. It writes equal labels in the same order.

    ``node_label`` is a target's label.
    """

    def __init__(self, node_label: str) -> None:
        self._node_label = node_label
        self._target_labels = TARGET_LABELS | {node_label}
        self.known: dict[bytes, LabelSet] = {}
        self._parts: dict[tuple[str, ...], tuple[str, ...]] = {}
        """The subjects and the names of labels, each once."""
        self._targets: dict[Target, Target] = {}
        self._texts: dict[str, str] = {}
        """The names and values of this refresh, because most occur in many series. Python 3.12 never frees a text of ``sys.intern``."""
        self._refresh = 0

    def made(self, metric: bytes) -> LabelSet:
        """Return a new label set. Raises DecodeError if its values are not texts.

        It is not kept before ``keep``, because an exporter can have more series than may be used.
        """
        shared = self._texts.setdefault
        labels = {shared(name, name): shared(value, value) for name, value in decode_json(dict[str, str], metric).items()}
        subject = tuple(part for name in sorted(labels) if name not in self._target_labels for part in (name, labels[name]))
        target = labels.get(self._node_label, ""), labels.get(INSTANCE, "")
        return LabelSet(metric, SeriesLabels(tuple(labels), tuple(labels.values())), target, subject)

    def keep(self, one: LabelSet) -> None:
        """Keep a label set, so that the next series with these labels has the same one."""
        self.known[one.metric] = one
        one.target = self._targets.setdefault(one.target, one.target)
        one.subject = self._parts.setdefault(one.subject, one.subject)
        one.labels.names = self._parts.setdefault(one.labels.names, one.labels.names)

    def names_without(self, name: str) -> set[str] | None:
        """Return the names of the labels of all series. Return None if one of the series has this label, or if there is no series."""
        if not self.known or any(name in one.labels.names for one in self.known.values()):
            return None
        return {known for one in self.known.values() for known in one.labels.names}

    def note_use(self, used: Iterable[LabelSet]) -> None:
        """Note that this refresh has these label sets."""
        refresh = self._refresh
        for one in used:
            one.used_in = refresh

    def end_refresh(self) -> None:
        """Remove the label sets that were not used for some refreshes."""
        self._refresh += 1
        self._texts = {}
        oldest = self._refresh - UNUSED_REFRESHES
        unused = [metric for metric, one in self.known.items() if one.used_in < oldest]
        for metric in unused:
            del self.known[metric]
        if unused:
            kept = self.known.values()
            self._parts = {part: part for one in kept for part in (one.subject, one.labels.names)}
            self._targets = {one.target: one.target for one in kept}
