# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The contents of a host, read from the output of its programs and from its files."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter import host as host_module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter.host import Host, own_addresses

from tests.unit.hosts.node_exporter_host import ARCHIVE, SUM, HostWith, wanted


@pytest.mark.parametrize(
    ("installed", "version", "enough"),
    [
        ("installed 1.5.0-1+b6", "", True),
        ("installed 1.5.0-1+b6", "1.5.0", True),
        ("installed 1.5.0-1+b6", "1.5.0-1+b6", True),
        ("installed 1.5.0-1+b6", "1.5", True),
        ("installed 1.50.0-1", "1.5", False),
        ("config-files 1.5.0-1", "", False),
        ("installed 1.9.0-1", "1.9", True),
        ("installed 1.9.0-1", "1.5.0", False),
    ],
)
def test_package_is_installed_if_its_version_begins_with_the_wanted_one(installed: str, version: str, enough: bool) -> None:
    assert HostWith(wanted(version=version), {"dpkg-query": installed}).is_installed() is enough
    assert HostWith(wanted(version=version)).is_installed() is False


def test_archive_is_installed_if_neither_it_nor_the_program_has_changed(tmp_path: Path) -> None:
    folders = {"binary_install_dir": str(tmp_path), "config_dir": str(tmp_path)}
    host = HostWith(wanted(**ARCHIVE | folders))
    assert not host.is_installed()
    (tmp_path / "node_exporter").write_text("program")
    (tmp_path / "installed_archive").write_text(f"{SUM} {hashlib.sha256(b'program').hexdigest()}\n")
    assert host.is_installed()
    assert not HostWith(wanted(**ARCHIVE | folders | {"archive_sum": "00"})).is_installed()
    (tmp_path / "node_exporter").write_text("other")
    assert not host.is_installed()


@pytest.mark.parametrize(
    ("exists", "declared", "owned"),
    [
        (False, "", True),
        (True, "", False),
        (True, "d {} 2775 root node-exp -", True),
        (True, "d /var/lib/other 2775 root node-exp -", False),
    ],
)
def test_folder_of_textfile_that_another_tool_has_created_is_not_declared(
    exists: bool, declared: str, owned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "textfile"
    (tmp_path / "tmpfiles").write_text(declared.format(folder))
    monkeypatch.setattr(host_module, "TMPFILES", str(tmp_path / "tmpfiles"))
    if exists:
        folder.mkdir()
    assert HostWith(wanted(textfile_dir=str(folder))).owns_textfile_dir() is owned
    assert HostWith(wanted(textfile_dir="")).owns_textfile_dir() is False


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (["2: eno1 inet 10.0.0.7/24 brd 10.0.0.255 scope global eno1", "2: eno1 inet 10.0.0.9/32 scope global eno1"], ["10.0.0.7"]),
        (
            ["2: eno1 inet 10.0.0.7/32 scope global eno1", "2: eno1 inet6 fd00::7/64 scope global dynamic"],
            ["10.0.0.7", "[fd00::7]"],
        ),
        (
            ["2: eno1 inet6 fd00::9/128 scope global dynamic", "2: eno1 inet6 fd00::7/64 scope global dynamic"],
            ["[fd00::7]"],
        ),
        (["2: eno1 inet6 fd00::8/64 scope global temporary dynamic", "2: eno1 inet6 fe80::1/64 scope link"], []),
        (["2: ppp0 inet 10.0.0.7 peer 10.0.0.1/32 scope global ppp0"], ["10.0.0.7"]),
    ],
)
def test_floating_address_of_an_interface_is_left_out(output: list[str], expected: list[str]) -> None:
    assert own_addresses("\n".join(output) + "\n") == expected


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"route get 192.0.2.1": "192.0.2.1 via 10.0.0.1 dev eth0 src 10.0.0.7 uid 0"}, "10.0.0.7"),
        ({"-4 -oneline address": "2: eth0    inet 10.0.0.8/24 scope global eth0"}, "10.0.0.8"),
        ({"route get 2001:db8::1": "2001:db8::1 from :: via fe80::1 dev eth0 src fd00::7 metric 1024"}, "fd00::7"),
        ({"-6 -oneline address": "2: eth0    inet6 fd00::8/64 scope global"}, "fd00::8"),
        (
            {
                "-4 -oneline address": "2: eth0    inet 10.0.0.8/24 scope global eth0",
                "route get 2001:db8::1": "2001:db8::1 from :: via fe80::1 dev eth0 src fd00::7 metric 1024",
            },
            "10.0.0.8",
        ),
        ({}, ""),
    ],
)
def test_a_host_without_ipv4_is_reached_at_its_ipv6_address(answers: dict[str, str], expected: str) -> None:
    assert HostWith(wanted(), answers).source == expected


def run(words: Sequence[str]) -> tuple[int, str, str]:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(shutil.which("ss") is None, reason="needs ss")
def test_listener_has_its_process(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        (found,) = Host(run, **wanted(web_listen_address=f"0.0.0.0:{port}")).listeners
    assert found.address == f"127.0.0.1:{port}" and found.pids in ((os.getpid(),), (0,))


def test_listeners_are_those_at_the_wanted_ports() -> None:
    lines = [
        'LISTEN 0 4096 *:9100 *:* users:(("node_exporter",pid=99999999,fd=3))',
        "LISTEN 0 4096 0.0.0.0:9100 0.0.0.0:*",
        'LISTEN 0 128 0.0.0.0:22 0.0.0.0:* users:(("sshd",pid=1,fd=3))',
    ]
    host = HostWith(wanted(), {"ss --no-header": "\n".join(lines)})
    del host.__dict__["listeners"]
    assert [tuple(found) for found in host.listeners] == [
        ("*:9100", (99999999,), "", "node_exporter"),
        ("0.0.0.0:9100", (0,), "", "kernel"),
    ]


def test_unreadable_file_has_the_reason(tmp_path: Path) -> None:
    def answer(words: Sequence[str]) -> tuple[int, str, str]:
        return (
            (0, "x", "") if words[-1].endswith("cert.pem") else (1, "", f"head: cannot open '{words[-1]}' for reading: Permission denied\n")
        )

    secured: dict[str, Any] = {"tls_server_config": {"cert_file": "/cert.pem", "key_file": "/key.pem", "client_ca_file": ""}}
    assert Host(answer, **wanted(**secured)).unreadable == {"/key.pem": "Permission denied"}
