# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Host ports."""

from __future__ import annotations

import typing as t

import pytest

from tests.unit.support.cluster import codes
from tests.unit.support.objects import container, node, pod, sidecar


def port(number: int, *, protocol: str = "TCP", address: str = "") -> dict[str, t.Any]:
    return {"hostPort": number, "containerPort": 80, "protocol": protocol, "hostIP": address}


@pytest.mark.parametrize(
    ("used", "wanted", "clash"),
    [
        (port(80), port(80), True),
        (port(80), port(81), False),
        (port(80), port(80, protocol="UDP"), False),
        (port(80, address="10.0.0.1"), port(80, address="10.0.0.2"), False),
        (port(80, address="10.0.0.1"), port(80, address="10.0.0.1"), True),
        (port(80, address="10.0.0.1"), port(80), True),
        (port(80), port(80, address="10.0.0.1"), True),
        (port(80, address="0.0.0.0"), port(80, address="10.0.0.1"), True),
        (port(80, address="::"), port(80, address="10.0.0.1"), False),
        (port(80, address="10.0.0.1"), port(80, address="0.0.0.0"), True),
        (port(0), port(0), False),
    ],
)
def test_ports_clash_on_the_same_address_and_protocol(used: dict[str, t.Any], wanted: dict[str, t.Any], clash: bool) -> None:
    other = pod(containers=[container(ports=[used])], on="node-1")
    assert codes(pod(containers=[container(ports=[wanted])]), node(), [other]) == (["host_ports"] if clash else [])


@pytest.mark.parametrize(
    ("spec", "clash"),
    [
        ({"initContainers": [sidecar(ports=[port(80)])]}, True),
        ({"initContainers": [container(ports=[port(80)])]}, False),
        ({"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80}])]}, True),
        ({"hostNetwork": False, "containers": [container(ports=[{"containerPort": 80}])]}, False),
        ({"containers": [container(), container(ports=[port(8080), port(80)])]}, True),
    ],
)
def test_ports_of_containers_that_keep_running_count(spec: dict[str, t.Any], clash: bool) -> None:
    other = pod(on="node-1", **spec)
    assert codes(pod(containers=[container(ports=[port(80)])]), node(), [other]) == (["host_ports"] if clash else [])
