# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Map series to nodes. The rules are tried in order, and the first rule that finds a node decides.

``name``: the label's value is the name of the node. ``host``: the value without its port is the name. ``address``: the value without its
port is the first InternalIP of a family or the first Hostname of the node. ``node_label``: the value without its port is the node's label
``kubernetes.io/hostname``. ``uname``: ``node_uname_info`` of the same instance has the name, address or label of the node as
``nodename``. ``short_name``: the value without its port, or the ``nodename``, equals the name up to the first dot of one of them.

A rule that finds several nodes makes the series ambiguous, and no later rule is tried.

Anybody whose pod is scraped can write a ``nodename``. Therefore the rules ``uname`` and ``short_name`` are weak: a series that one of them
has mapped is not used if the node has a series of another rule.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..kubernetes.node_objects import HOSTNAME_LABEL, NodeIdentity
from ..settings import ADDRESS, HOST, NAME, NODE_LABEL, NODE_RULES, SHORT_NAME, UNAME
from .label_sets import INSTANCE, LabelSet

NODENAME = "nodename"
SHOWN_NODES = 3

WEAK_RULES = (UNAME, SHORT_NAME)
"""The rules that give way to the others, if both map series to the same node."""

Names = dict[str, tuple[str, ...]]
"""The names of the nodes that have a text."""


class NodeMapper:
    """Maps label sets to nodes. The result is kept in the label set until the nodes or the host names of the instances change.

    ``version`` grows with each of these changes. ``numbers``: those of the nodes, for ``PackedSeries``.

    ``nodes`` is None if the nodes of the cluster are not known. Then the label's value is the name of the node: without its port, or
    replaced by ``node_uname_info`` if it is an IP address.
    """

    def __init__(self, node_label: str, rules: tuple[str, ...] = NODE_RULES) -> None:
        self.node_label = node_label
        self._rules = rules
        self._nodenames: Mapping[str, str] = {}
        self.version = 0
        self._set_nodes(None)

    def use(self, nodes: Sequence[NodeIdentity] | None) -> None:
        """Map to these nodes from now on."""
        if nodes != self.nodes:
            self._set_nodes(nodes)
            self.version += 1

    def _set_nodes(self, nodes: Sequence[NodeIdentity] | None) -> None:
        self.nodes, known = nodes, nodes or ()
        self._names: Names = {node.name: (node.name,) for node in known}
        self.numbers = {name: number for number, name in enumerate(self._names)}
        self._addresses = self._by_text((address, node) for node in known for address in node.addresses)
        self._hostnames = self._by_text((node.hostname, node) for node in known if node.hostname)
        self._short_names = self._by_text((_short(node.name), node) for node in known)

    def _by_text(self, pairs: Iterable[tuple[str, NodeIdentity]]) -> Names:
        """Return the names of the nodes that have a text. Most texts share the tuple of a name."""
        found: Names = {}
        for text, node in pairs:
            names = found.setdefault(text, self._names[node.name])
            if node.name not in names:
                found[text] = (*names, node.name)
        return found

    def use_nodenames(self, nodenames: Mapping[str, str]) -> None:
        """Use these host names, by the value of the label ``instance``. ``nodenames_of`` makes them."""
        if nodenames != self._nodenames:
            self._nodenames = nodenames
            self.version += 1

    def needs_nodenames(self, labels: LabelSet) -> bool:
        """Return whether ``node_uname_info`` may find the node of this label set."""
        self.node_of(labels)
        return bool(labels.why) and UNAME in self._rules and INSTANCE in labels.labels

    def node_of(self, labels: LabelSet) -> str | None:
        """Return the name of the node. If it is None, ``labels.why`` has the reason."""
        if labels.table != self.version:
            labels.node, labels.why, labels.is_own = self._find(labels.labels)
            labels.table = self.version
        return labels.node

    def _find(self, labels: Mapping[str, str]) -> tuple[str | None, str, bool]:
        """Return the node, the reason if there is none or if it is only assumed, and whether the rule is not a weak one."""
        value = labels.get(self.node_label, "")
        nodename = self._nodenames.get(labels.get(INSTANCE, ""), "") if UNAME in self._rules else ""
        if not value and not nodename:
            return None, f"it has no label {self.node_label}", False
        if self.nodes is None:
            assumed = self._assumed(value, nodename)
            is_address = self.node_label == INSTANCE and _is_ip_address(_host(value))
            return assumed, "its label has an address" if is_address else "", assumed != nodename
        for rule, what, names in self._candidates(value, nodename):
            if len(names) == 1:
                return names[0], "", rule not in WEAK_RULES
            if names:
                return None, f"{what} belongs to {len(names)} nodes: {', '.join(sorted(names)[:SHOWN_NODES])}", False
        shown = f"{self.node_label} {value!r}" + (f" and nodename {nodename!r}" if nodename else "")
        return None, f"no node has the name or address in {shown}", False

    def _assumed(self, value: str, nodename: str) -> str:
        """Return the name that the series most likely means if the nodes of the cluster are not known."""
        if self.node_label != INSTANCE and value:
            return value
        host = _host(value)
        return nodename if nodename and (not host or _is_ip_address(host)) else host

    def _candidates(self, value: str, nodename: str) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        host = _host(value)
        for rule in self._rules:
            if rule == NAME:
                yield rule, value, self._names.get(value, ())
            elif rule == HOST:
                yield rule, host, self._names.get(host, ())
            elif rule == ADDRESS:
                yield rule, f"the address {host}", self._addresses.get(host, ())
            elif rule == NODE_LABEL:
                yield rule, f"the label {HOSTNAME_LABEL} {host}", self._hostnames.get(host, ())
            elif rule == UNAME and nodename:
                for names in (self._names, self._addresses, self._hostnames):
                    yield rule, f"the nodename {nodename}", names.get(nodename, ())
            elif rule == SHORT_NAME:
                for text in filter(None, (host, nodename)):
                    yield rule, f"the short name {_short(text)}", self._by_short_name(text)

    def _by_short_name(self, text: str) -> tuple[str, ...]:
        """Return the nodes whose name is the short form of the text, or of which the text is the short form."""
        if _is_ip_address(text):
            return ()
        found = self._short_names.get(_short(text), ())
        # Two full names with different domains are different machines.
        return tuple(name for name in found if "." not in name or "." not in text or name == text)


def nodenames_of(label_sets: Iterable[LabelSet]) -> dict[str, str]:
    """Return the host name of each instance from the label sets of ``node_uname_info``. An instance with several has none."""
    found: dict[str, str] = {}
    for labels in label_sets:
        instance, nodename = labels.labels.get(INSTANCE), labels.labels.get(NODENAME)
        if instance and nodename:
            found[instance] = nodename if found.get(instance, nodename) == nodename else ""
    return {instance: nodename for instance, nodename in found.items() if nodename}


def _host(value: str) -> str:
    """Return the host of ``HOST``, ``HOST:PORT``, ``[IPV6]:PORT`` or an IPv6 address."""
    if value.startswith("["):
        return value[1:].partition("]")[0]
    host, colon, port = value.rpartition(":")
    return host if colon and ":" not in host and port.isdecimal() else value


def _short(name: str) -> str:
    return name.partition(".")[0]


def _is_ip_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
