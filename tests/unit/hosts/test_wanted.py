# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments, the addresses and the web configuration that follow from the variables of the role node_exporter."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest

from tests.unit.hosts.node_exporter_host import SECURED, HostWith, wanted

INTERFACES = {"eno1": ["10.0.0.7", "[fd00::7]"], "eno2": ["10.9.9.9"]}


def arguments(**variables: Any) -> list[str]:
    """The arguments of node_exporter, as systemd reads them from the unit."""
    quoted = HostWith(wanted(**variables), interfaces=INTERFACES).arguments()
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(" ".join(quoted))]


def test_default_arguments_leave_out_the_devices_of_pods_and_have_one_address() -> None:
    found = arguments()
    (excluded,) = [word.partition("=")[2] for word in found if word.startswith("--collector.netdev.device-exclude=")]
    assert [name for name in ("eth0", "eno1", "bond0", "lo", "veth1a", "cali12", "cilium_host") if re.search(excluded, name)] == [
        "lo", "veth1a", "cali12", "cilium_host"
    ]  # fmt: skip
    assert found[-2:] == ["--web.listen-address=0.0.0.0:9100", "--web.telemetry-path=/metrics"]
    assert "--collector.textfile.directory=/var/lib/node_exporter" in found
    assert not [word for word in found if word.startswith(("--web.config", "--web.disable"))]


@pytest.mark.parametrize(
    ("collectors", "expected"),
    [
        (["systemd"], ["--collector.systemd"]),
        ([{"netdev": {"device-include": "^eth0$"}}],
         ["--collector.netdev", "--collector.netdev.device-exclude=", "--collector.netdev.device-include=^eth0$"]),
        ([{"netdev": {"device-exclude": "lo"}}], ["--collector.netdev", "--collector.netdev.device-exclude=lo"]),
        ([{"netclass": {"ignore-invalid-speed": True, "netlink": False}}],
         ["--collector.netclass", "--collector.netclass.ignore-invalid-speed", "--no-collector.netclass.netlink"]),
        ([{"sysctl": {"include": ["vm.swappiness", "fs.file-nr"]}}],
         ["--collector.sysctl", "--collector.sysctl.include=vm.swappiness", "--collector.sysctl.include=fs.file-nr"]),
        ([{"cpu": {}}, {"ntp": {"server-port": 123}}], ["--collector.cpu", "--collector.ntp", "--collector.ntp.server-port=123"]),
        ([{"filesystem": {"mount-points-exclude": r'^/(a "b"|100%|$x|\d+)$'}}],
         ["--collector.filesystem", r'--collector.filesystem.mount-points-exclude=^/(a "b"|100%|$x|\d+)$']),
    ],
)  # fmt: skip
def test_options_of_collectors_become_arguments(collectors: list[Any], expected: list[str]) -> None:
    found = arguments(enabled_collectors=collectors, disabled_collectors=["arp"])
    assert found[: len(expected) + 1] == [*expected, "--no-collector.arp"]


def test_folder_of_textfile_is_given_once() -> None:
    given = [{"textfile": {"directory": "/run/metrics"}}]
    assert [word for word in arguments(enabled_collectors=given) if "directory" in word] == ["--collector.textfile.directory=/run/metrics"]
    assert not [word for word in arguments(textfile_dir="") if "textfile" in word]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("[::]:9100", ["[::]:9100"]),
        (["10.0.0.1:9100", "[fd00::1]:9101"], ["10.0.0.1:9100", "[fd00::1]:9101"]),
        ("eno1:9100", ["10.0.0.7:9100", "[fd00::7]:9100"]),
        (["eno1:9100", "10.0.0.7:9100"], ["10.0.0.7:9100", "[fd00::7]:9100"]),
        (":9100", [":9100"]),
    ],
)
def test_interface_becomes_its_addresses(given: Any, expected: list[str]) -> None:
    found = arguments(web_listen_address=given)
    assert [word.partition("=")[2] for word in found if word.startswith("--web.listen-address=")] == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("0.0.0.0:9100", "http://127.0.0.1:9100/metrics"),
        (":9200", "http://127.0.0.1:9200/metrics"),
        ("[::]:9100", "http://[::1]:9100/metrics"),
        (["10.0.0.7:9100", "0.0.0.0:9200"], "http://10.0.0.7:9100/metrics"),
    ],
)
def test_host_asks_itself_at_the_first_address(given: Any, expected: str) -> None:
    assert HostWith(wanted(web_listen_address=given)).url == expected


def test_web_configuration_has_only_what_is_given() -> None:
    assert HostWith(wanted()).web_config({}) == {}
    secured = HostWith(wanted(basic_auth_users={"prometheus": "secret"}, **SECURED))
    assert secured.web_config({"prometheus": "$2b$10$hash"}) == SECURED | {"basic_auth_users": {"prometheus": "$2b$10$hash"}}
    assert secured.scheme == "https" and "--web.config.file=/etc/node_exporter/web_config.yml" in arguments(**SECURED)


def test_known_user_is_the_first_one_with_a_password() -> None:
    hash_of_a = "$2y$10$" + "x" * 53
    assert HostWith(wanted(basic_auth_users={"a": hash_of_a, "b": "word"})).known_user == "b"
    assert HostWith(wanted(basic_auth_users={"a": hash_of_a})).known_user == ""
    assert HostWith(wanted(basic_auth_users={"a": "$2y$10$short"})).known_user == "a", "it is no hash, so it is a password"
