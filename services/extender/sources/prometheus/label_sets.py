# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The label sets of series. Equal label sets are decoded, kept and mapped to a node once."""

from __future__ import annotations

import sys
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


class LabelSet:
    """The labels of one or more series. ``metric``: their JSON as Prometheus writes it.

    ``subject``: the labels without those of the target. Two series of one node and one query with the same subject measure the same.
    ``node``: the node's name, or None if ``why`` tells the reason. ``is_own``: the label of the node itself has its name or address, and no
    other series had to tell it. These hold for ``table``, the number of the table of nodes.
    """

    __slots__ = ("is_own", "labels", "metric", "node", "subject", "table", "used_in", "why")

    def __init__(self, metric: bytes, labels: SeriesLabels, subject: tuple[str, ...], used_in: int) -> None:
        self.metric = metric
        self.labels = labels
        self.subject = subject
        self.node: str | None = None
        self.why = ""
        self.is_own = False
        self.table = -1
        self.used_in = used_in

    def note_node(self, node: str | None, why: str, is_own: bool, table: int) -> None:
        """Keep the result of the mapping by a table."""
        self.node, self.why, self.is_own, self.table = node, why, is_own, table


class Target(t.NamedTuple):
    """The values of the label of the node and of ``instance``: one exporter."""

    node: str
    instance: str


class LabelSets:
    """All label sets by the bytes that Prometheus writes. It writes equal labels in the same order. ``node_label`` is a target's label."""

    def __init__(self, node_label: str) -> None:
        self._node_label = node_label
        self._target_labels = TARGET_LABELS | {node_label}
        self._sets: dict[bytes, LabelSet] = {}
        self._texts: dict[tuple[str, ...], tuple[str, ...]] = {}
        """The subjects and the names of labels, each once."""
        self._refresh = 0

    def __len__(self) -> int:
        return len(self._sets)

    def get(self, metric: bytes) -> LabelSet:
        """Return the label set of the JSON object ``metric``. Raises DecodeError if its values are not texts.

        A new label set is not kept before ``keep``, because an exporter can have more series than may be used.
        """
        return self._sets.get(metric) or self._made(metric)

    def keep(self, labels: LabelSet) -> None:
        """Keep a label set, so that the next series with these labels has the same one."""
        if labels.metric not in self._sets:
            self._sets[labels.metric] = labels
            labels.subject = self._texts.setdefault(labels.subject, labels.subject)
            labels.labels.names = self._texts.setdefault(labels.labels.names, labels.labels.names)

    def target_of(self, labels: LabelSet) -> Target:
        """Return the target of the series."""
        return Target(labels.labels.get(self._node_label, ""), labels.labels.get(INSTANCE, ""))

    def names_without(self, name: str) -> set[str] | None:
        """Return the names of the labels of all series. Return None if one of the series has this label, or if there is no series."""
        if not self._sets or any(name in one.labels.names for one in self._sets.values()):
            return None
        return {known for one in self._sets.values() for known in one.labels.names}

    def end_refresh(self, used: Iterable[LabelSet]) -> None:
        """Note the label sets of this refresh, and remove those that were not used for some refreshes."""
        for one in used:
            one.used_in = self._refresh
        self._refresh += 1
        oldest = self._refresh - UNUSED_REFRESHES
        unused = [metric for metric, labels in self._sets.items() if labels.used_in < oldest]
        for metric in unused:
            del self._sets[metric]
        if unused:
            self._texts = {texts: texts for one in self._sets.values() for texts in (one.subject, one.labels.names)}

    def _made(self, metric: bytes) -> LabelSet:
        # Most labels and values occur in many series.
        labels = {sys.intern(name): sys.intern(value) for name, value in decode_json(dict[str, str], metric).items()}
        subject = tuple(part for name in sorted(labels) if name not in self._target_labels for part in (name, labels[name]))
        return LabelSet(metric, SeriesLabels(tuple(labels), tuple(labels.values())), subject, self._refresh)
