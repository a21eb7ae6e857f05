# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The delivery of views, of changed nodes and of outcomes to the listener of the sources.

The thread of the refresh delivers views. The threads of the watch deliver the nodes whose pods have changed. A node that changes while a
view is made is delivered immediately, and its newest state is in the view.
"""

from __future__ import annotations

import itertools
import threading
import typing as t
from collections.abc import Callable
from dataclasses import replace

from ..interface import NodeView, PodView
from .kubernetes.pod_tracker import PodChanges
from .source_log import SourceLog
from .view import ClusterView, ViewListener

T = t.TypeVar("T")

PodsOn = Callable[[str], tuple[PodView, ...]]
"""Returns the newest pods on a node. It is called under the lock."""

VERSIONS = itertools.count(1)
"""The versions of views. They also grow when other settings replace the sources, so that no version occurs twice in a process."""


class Delivery:
    """Calls the listener, until ``stop``. ``lock`` guards the pods and the nodes that were delivered."""

    def __init__(self, listener: ViewListener, log: SourceLog, lock: threading.RLock) -> None:
        self._listener, self._log, self._lock = listener, log, lock
        self._nodes: dict[str, NodeView] = {}
        """The nodes of the last view, in their newest state."""
        self._has_view = False
        self._changed: set[str] | None = None
        """The nodes that have changed since a refresh began to make its view, and None if there is none."""
        self._delivering = threading.Lock()
        self._is_stopped = False

    def stop(self) -> None:
        """Do not call the listener any more. A call that had begun before has ended when this returns."""
        self._is_stopped = True
        with self._delivering, self._lock:
            return

    # --- the thread of the refresh ---

    def note_changes(self) -> None:
        """Note the nodes that change from now on. It is called before the nodes of the next view are made."""
        with self._lock:
            self._changed = set()

    def deliver(self, view: ClusterView, pods_on: PodsOn) -> ClusterView:
        """Deliver a view, and return it with its version, and with the nodes that have changed since ``note_changes``."""
        nodes = dict(view.nodes)
        with self._lock:
            for name in (self._changed or set()) & nodes.keys():
                nodes[name] = replace(nodes[name], pods=pods_on(name))
            self._nodes, self._has_view, self._changed = nodes, True, None
            view = replace(view, version=next(VERSIONS), nodes=nodes)
        with self._delivering:
            self._call("a new view could not be used", self._listener.on_view, view)
        return view

    # --- the threads of the watch, under the lock ---

    def take_over(self, changes: PodChanges, pods_on: PodsOn) -> None:
        """Deliver the nodes whose pods have changed, and the outcomes. Before the first view there is nothing to change."""
        if self._changed is not None:
            self._changed |= changes.nodes
        if not self._has_view:
            return
        for name in changes.nodes & self._nodes.keys():
            # First in the view: the listener may not have begun to take it over.
            node = self._nodes[name] = replace(self._nodes[name], pods=pods_on(name))
            self._call(f"the change of the pods on node {name} could not be used", self._listener.on_node, node)
        for outcome in changes.outcomes:
            self._call(f"the outcome of pod {outcome.pod.name} could not be used", self._listener.on_outcome, outcome)

    def _call(self, what: str, method: Callable[[T], None], argument: T) -> None:
        """Call the listener. An error in it, or in an agent, must not end the thread of a source."""
        if self._is_stopped:
            return
        try:
            method(argument)
        except Exception as error:
            self._log.failed(what, error)
