# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role node_exporter: its variables, the unit that it writes, and the reasons with which it refuses a host."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.installation.rules import node_exporter

from tests.integration.roles.host_cases import CasesRun, play_role
from tests.integration.roles.role_play import RolePlay, ansible_playbook
from tests.unit.roles.role_variables import RoleVariables, task
from tools.paths import ROOT

ROLE = ROOT / "roles" / "node_exporter"
SPECS: dict[str, Any] = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text())["argument_specs"]
OPTIONS: dict[str, dict[str, Any]] = SPECS["main"]["options"]
SUM = "ab" * 32
ARCHIVE = {
    "node_exporter_method": "archive",
    "node_exporter_version": "1.11.1",
    "node_exporter_archive_path": "/srv/node_exporter-{version}.linux-{architecture}.tar.gz",
    "node_exporter_checksum": f"sha256:{SUM}",
}
FACTS = {
    "architecture": "x86_64",
    "distribution": "Debian",
    "distribution_version": "12",
    "os_family": "Debian",
    "service_mgr": "systemd",
}
SECURED = {"node_exporter_tls_server_config": {"cert_file": "/etc/tls/cert.pem", "key_file": "/etc/tls/key.pem"}}
CLIENTS = {
    "node_exporter_tls_server_config": SECURED["node_exporter_tls_server_config"] | {"client_auth_type": "RequireAndVerifyClientCert"}
}
CONFLICT = "listener *:9100 812 cri-containerd-4f.scope node_exporter"


def role(*lines: str, facts: dict[str, str] | None = None, **variables: Any) -> RoleVariables:
    """The role on a host for which files/probe.sh has printed these lines."""
    return RoleVariables(
        ROLE,
        {
            "ansible_facts": FACTS | (facts or {}),
            "__node_exporter_probe": {"stdout_lines": list(lines)},
            "__node_exporter_hashes": {"prometheus": "$2b$10$hash"},
            **variables,
        },
    )


def arguments(*lines: str, **variables: Any) -> list[str]:
    """The arguments of node_exporter, as systemd reads them from the unit."""
    text = role(*lines, **variables).render("unit.j2")
    (command,) = re.findall(r"^ExecStart=(.+)$", text.replace("\\\n", ""), re.MULTILINE)
    return [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(command)]


# Variables


@pytest.mark.parametrize("entry_point", sorted(SPECS))
def test_all_entry_points_have_the_same_variables(entry_point: str) -> None:
    assert SPECS[entry_point]["options"] == OPTIONS and (ROLE / "tasks" / f"{entry_point}.yml").exists()


def test_the_readme_names_each_variable_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(node_exporter_[a-z_]+)` \| (.*?) \|", (ROLE / "README.md").read_text(), re.MULTILINE))
    assert set(rows) == set(OPTIONS)
    described = {"node_exporter_binary_url", "node_exporter_enabled_collectors"}
    shown = {name: json.dumps(option["default"]).strip('"') or "empty" for name, option in OPTIONS.items()}
    assert {name: default.replace("`", "") for name, default in rows.items() if name not in described} == {
        name: default for name, default in shown.items() if name not in described
    }


CHECKED: dict[str, dict[str, Any]] = {
    "wrong": {
        "method": "archive",
        "listen_address": "0.0.0.0:9100",
        "checksum": "ab12",
        "enabled_collectors": ["systemd", {"netdev": "eth0"}],
        "disabled_collectors": ["systemd"],
        "web_listen_address": ["::1:9100", "eno1:9100", "[fd00::1]:9100", "9100"],
        "tls_server_config": {"cert_file": "/etc/tls/cert.pem"},
        "config_dir": "etc",
        "basic_auth_users": {"prometheus": "", "other": "word-of-other"},
    },
    "other-types": {
        "basic_auth_users": "prometheus:word-of-user",
        "enabled_collectors": None,
        "disabled_collectors": None,
        "version": "latest",
    },
    "other-role": {"local_cache_path": "/tmp/x", "skip_install": True, "textfile_dir": ""},
}
"""Variables of hosts, without the prefix."""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> CasesRun:
    """A run of the check of the variables for these hosts."""
    cases = {host: {f"node_exporter_{name}": value for name, value in given.items()} for host, given in CHECKED.items()}
    return play_role(RolePlay("node_exporter", tmp_path_factory.mktemp("checked"), tasks_from="check"), cases, "-vvv")


def test_wrong_variables_are_refused_in_one_message(checked: CasesRun) -> None:
    failure = checked.failure("wrong")
    for text in (
        "There is no variable node_exporter_listen_address; the nearest is node_exporter_web_listen_address.",
        "node_exporter_version is empty: set it",
        "node_exporter_checksum is ab12: it must be sha256:",
        'node_exporter_enabled_collectors has the item {"netdev": "eth0"}: it must be a name',
        "node_exporter_disabled_collectors has systemd, which node_exporter_enabled_collectors has, too",
        "node_exporter_web_listen_address has ::1:9100: it must be IPv4:port",
        "node_exporter_web_listen_address has 9100: it must be",
        "node_exporter_tls_server_config has no key_file",
        "node_exporter_config_dir is etc: it must begin with /",
        "node_exporter_basic_auth_users has no password for prometheus",
    ):
        assert text in failure, text
    assert "word-of-other" not in checked.output
    assert "has eno1" not in failure and "has [fd00" not in failure and "node_exporter_textfile_dir is" not in failure


def mistakes(**variables: Any) -> list[str]:
    """The mistakes in the variables that the argument spec does not find."""
    return node_exporter.mistakes({name: option["default"] for name, option in OPTIONS.items()} | ARCHIVE | variables)


PACKAGE = {"node_exporter_method": "package"}


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"node_exporter_version": "1.11.1-rc.0"},
        PACKAGE | {"node_exporter_version": 1.9},
        PACKAGE | {"node_exporter_version": None},
        PACKAGE | {"node_exporter_version": "1.9.0-1+b4"},
        {"node_exporter_enabled_collectors": None, "node_exporter_disabled_collectors": None},
        {"node_exporter_enabled_collectors": ["cpu", {"netdev": {"device-exclude": "", "address-info": False, "x": ["a", 0]}}]},
        {"node_exporter_web_listen_address": ["[fd00::7]:65535", ":1"]},
        {"node_exporter_system_user": "_node.exp-1"},
    ],
)
def test_good_values_are_no_mistakes(variables: dict[str, Any]) -> None:
    assert mistakes(**variables) == []


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("version", "latest", "is latest: it must be the version"),
        ("version", "v1.11.1", "is v1.11.1: it must be the version"),
        ("version", 1.9, "is 1.9: it must be the version"),
        ("version", "1.4.0", "is 1.4.0: it must be 1.5.0 or later"),
        ("enabled_collectors", [None], "has the item null: it must be a name"),
        ("enabled_collectors", ["cpu\n"], "has the item"),
        ("enabled_collectors", [{"netdev": {"device-include": "^eth0$\n"}}], 'has the item {"netdev": {"device-include"'),
        ("enabled_collectors", [{"sysctl": {"include": ["a", "b\n"]}}], "has the item"),
        ("enabled_collectors", [{"netdev": {"device-include": None}}], "has the item"),
        ("web_listen_address", "0.0.0.0:99999", "has 0.0.0.0:99999: the port"),
        ("web_listen_address", ":0", "has :0: the port"),
        ("web_listen_address", "0.0.0.0:9100\n", "has 0.0.0.0:9100"),
        ("system_user", "", 'is "": it must be a name'),
        ("system_user", "a b", 'is "a b": it must be a name'),
        ("system_user", "root", "is root: "),
        ("system_group", None, "is null: it must be a name"),
        ("tls_server_config", {"cert_file": None, "key_file": "/k"}, "has no cert_file"),
    ],
)  # fmt: skip
def test_each_wrong_value_is_one_mistake(name: str, value: Any, text: str) -> None:
    found = mistakes(**{f"node_exporter_{name}": value})
    assert found and found[0].startswith(f"node_exporter_{name} {text}")


@pytest.mark.parametrize("version", ["latest", "v1.9.0", "1.9*", "1.9 "])
def test_wrong_version_of_the_package_is_refused(version: str) -> None:
    (found,) = mistakes(node_exporter_method="package", node_exporter_version=version)
    assert found.startswith(f"node_exporter_version is {version.strip()}") and "a version of the package" in found


def test_variable_of_another_type_hides_no_other_mistake_and_its_secret_is_not_shown(checked: CasesRun) -> None:
    failure = checked.failure("other-types")
    for text in (
        "node_exporter_basic_auth_users is no dictionary: write",
        "node_exporter_enabled_collectors is null, which is no list: write",
        "node_exporter_version is latest",
    ):
        assert text in failure, text
    assert "word-of-user" not in checked.output


def test_variables_of_the_other_role_are_accepted_with_a_warning(checked: CasesRun) -> None:
    assert checked.failure("other-role") == "", checked.output
    assert "[WARNING]: node_exporter_local_cache_path has no effect in this role" in checked.in_one_line
    assert "or to package or archive" in checked.in_one_line


# The unit


def test_default_arguments_leave_out_the_devices_of_pods_and_have_one_address() -> None:
    found = arguments()
    (excluded,) = [word.partition("=")[2] for word in found if word.startswith("--collector.netdev.device-exclude=")]
    assert [name for name in ("eth0", "eno1", "bond0", "lo", "veth1a", "cali12", "cilium_host") if re.search(excluded, name)] == [
        "lo", "veth1a", "cali12", "cilium_host"
    ]  # fmt: skip
    assert found[0] == "/usr/bin/prometheus-node-exporter" and found[-2:] == [
        "--web.listen-address=0.0.0.0:9100", "--web.telemetry-path=/metrics"
    ]  # fmt: skip
    assert "--collector.textfile.directory=/var/lib/node_exporter" in found
    assert not [word for word in found if word.startswith("--web.config")]


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
    found = arguments(node_exporter_enabled_collectors=collectors, node_exporter_disabled_collectors=["arp"])
    assert found[1 : len(expected) + 2] == [*expected, "--no-collector.arp"]


def test_folder_of_textfile_is_given_once() -> None:
    given = [{"textfile": {"directory": "/run/metrics"}}]
    assert [word for word in arguments(node_exporter_enabled_collectors=given) if "directory" in word] == [
        "--collector.textfile.directory=/run/metrics"
    ]
    assert not [word for word in arguments(node_exporter_textfile_dir="") if "textfile" in word]


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
    lines = ("address eno1 10.0.0.7", "address eno1 fd00::7", "address eno2 10.9.9.9")
    found = arguments(*lines, node_exporter_web_listen_address=given)
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
    assert role(node_exporter_web_listen_address=given)("{{ __node_exporter_own_url }}") == expected


def test_web_configuration_has_only_what_is_given() -> None:
    assert role()("{{ __node_exporter_has_web_config }}") is False
    secured = role(node_exporter_basic_auth_users={"prometheus": "secret"}, **SECURED)
    assert secured("{{ __node_exporter_web_config }}") == {
        "tls_server_config": SECURED["node_exporter_tls_server_config"],
        "basic_auth_users": {"prometheus": "$2b$10$hash"},
    }
    assert secured("{{ __node_exporter_own_url }}").startswith("https://")
    assert "--web.config.file=/etc/node_exporter/web_config.yml" in arguments(**SECURED)


def test_drop_in_replaces_the_command_of_the_package_and_the_archive_has_a_whole_unit() -> None:
    drop_in, unit = role().render("unit.j2"), role(**ARCHIVE).render("unit.j2")
    assert "EnvironmentFile=\nExecStart=\nExecStart=/usr/bin/prometheus-node-exporter" in drop_in and "[Install]" not in drop_in
    assert "WantedBy=multi-user.target" in unit and "EnvironmentFile" not in unit and unit.count("ExecStart=") == 1
    hardening = unit[unit.index("NoNewPrivileges") :]
    assert drop_in.endswith(hardening) and "ProtectSystem=strict" in hardening and "CapabilityBoundingSet=\n" in hardening


@pytest.mark.parametrize(
    "other",
    [
        {"node_exporter_log_level": "warn"},
        {"node_exporter_system_user": "other"},
        {"node_exporter_checksum": "sha256:" + "cd" * 32},
        SECURED,
        {"node_exporter_http_server_config": {"http2": False}},
    ],
)
def test_each_change_gives_another_configuration(other: dict[str, Any]) -> None:
    first, same, changed = role(**ARCHIVE), role(**ARCHIVE), role(**ARCHIVE | other)
    found = [
        each("{{ __node_exporter_configuration }}", __node_exporter_unit_text=each.render("unit.j2")) for each in (first, same, changed)
    ]
    assert found[0] == found[1] != found[2]


# What the host has


@pytest.mark.parametrize(
    ("installed", "wanted", "enough"),
    [
        ("installed 1.5.0-1+b6", "", True),
        ("installed 1.5.0-1+b6", "1.5.0", True),
        ("installed 1.5.0-1+b6", "1.5.0-1+b6", True),
        ("installed 1.5.0-1+b6", "1.5", True),
        ("installed 1.50.0-1", "1.5", False),
        ("config-files 1.5.0-1", "", False),
        ("installed 1.9.0-1", 1.9, True),
        ("installed 1.9.0-1", None, True),
        ("installed 1.9.0-1", "1.5.0", False),
    ],
)
def test_package_is_installed_if_its_version_begins_with_the_wanted_one(installed: str, wanted: Any, enough: bool) -> None:
    assert role(f"package {installed}", node_exporter_version=wanted)("{{ __node_exporter_has_package }}") is enough


def test_archive_is_installed_if_neither_it_nor_the_program_has_changed() -> None:
    name = "{{ __node_exporter_has_archive }}"
    assert role("program 01", f"record {SUM} 01", **ARCHIVE)(name) is True
    assert role("program 02", f"record {SUM} 01", **ARCHIVE)(name) is False
    assert role("program 01", "record 00 01", **ARCHIVE)(name) is False
    assert role(f"record {SUM} 01", **ARCHIVE)(name) is False
    assert role(**ARCHIVE)(name) is False


@pytest.mark.parametrize(
    ("lines", "owned"),
    [
        ([], True),
        (["textfile"], False),
        (["textfile", "tmpfiles /var/lib/node_exporter"], True),
        (["textfile", "tmpfiles /var/lib/other"], False),
    ],
)
def test_folder_of_textfile_that_another_tool_has_created_is_not_declared(lines: list[str], owned: bool) -> None:
    assert role(*lines)("{{ __node_exporter_owns_textfile }}") is owned
    assert role(*lines, node_exporter_textfile_dir="")("{{ __node_exporter_owns_textfile }}") is False


def test_checksum_may_depend_on_the_architecture() -> None:
    sums = {"node_exporter_checksum": {"amd64": "sha256:" + "AB" * 32, "arm64": "sha256:" + "cd" * 32}}
    found = role(facts={"architecture": "aarch64"}, **ARCHIVE | sums)("{{ __node_exporter_archive }}")
    assert found == {"url": "", "file": "/srv/node_exporter-1.11.1.linux-arm64.tar.gz", "sum": "cd" * 32}
    assert role(**ARCHIVE | sums)("{{ __node_exporter_archive.sum }}") == SUM


def test_download_has_a_name_with_its_sum() -> None:
    found = role(**ARCHIVE | {"node_exporter_archive_path": ""})("{{ __node_exporter_archive }}")
    assert found["url"].endswith("/v1.11.1/node_exporter-1.11.1.linux-amd64.tar.gz")
    assert found["file"].endswith(f"/node_exporter/{SUM[:12]}-node_exporter-1.11.1.linux-amd64.tar.gz")


# Refusals of a host


def reasons(*lines: str, facts: dict[str, str] | None = None, saved: dict[str, Any] | None = None, **variables: Any) -> list[str]:
    """The reasons with which preflight refuses the host."""
    evaluate = role(*lines, facts=facts, **variables)
    chosen = evaluate("{{ [__node_exporter_archive] if __node_exporter_is_archive else [] }}")
    answers = {"results": [{"item": archive, "stat": saved or {"exists": True, "checksum": SUM}} for archive in chosen]}
    texts = task(ROLE, "preflight.yml", "Fail with each reason")["vars"]
    found: list[str] = evaluate("{{ __node_exporter_reasons }}", **texts, __node_exporter_chosen=chosen, __node_exporter_archives=answers)
    return found


@pytest.mark.parametrize("variables", [{}, ARCHIVE, {"node_exporter_method": "present"}, SECURED])
def test_good_host_has_no_reason(variables: dict[str, Any]) -> None:
    assert reasons("user 997", "group 997", **variables) == []


@pytest.mark.parametrize(
    ("facts", "variables", "text"),
    [
        ({"service_mgr": "openrc"}, ARCHIVE, "node-3 has openrc as its service manager"),
        ({"os_family": "RedHat", "distribution": "Rocky"}, {}, "node-3 runs Rocky, and node_exporter_method: package is for Debian"),
        ({"distribution_version": "11"}, {}, "node-3 runs Debian 11, whose package is older than node_exporter 1.5.0"),
        ({"distribution": "Ubuntu", "distribution_version": "22.04"}, {}, "node-3 runs Ubuntu 22.04, whose package is older"),
        ({"architecture": "aarch64"}, ARCHIVE | {"node_exporter_checksum": {"amd64": f"sha256:{SUM}"}}, "node-3 is arm64, and"),
        ({}, {"node_exporter_web_listen_address": "eno9:9100"}, "node-3 has no interface eno9 with a global address"),
    ],
)
def test_host_is_refused_by_name(facts: dict[str, str], variables: dict[str, Any], text: str) -> None:
    (found,) = reasons(facts=facts, **variables)
    assert found.startswith(text)


def test_host_on_which_the_tasks_do_not_run_as_root_is_refused() -> None:
    assert reasons("self 0 root") == []
    (found,) = reasons("self 1000 admin")
    assert found.startswith("node-3: the tasks run as admin, ") and "ansible_become: true" in found


@pytest.mark.parametrize(
    ("saved", "text"),
    [
        ({"exists": False}, "The controller has no file /srv/node_exporter-1.11.1.linux-amd64.tar.gz"),
        ({"exists": True, "checksum": "cd" * 32}, f"/srv/node_exporter-1.11.1.linux-amd64.tar.gz has the SHA-256 sum {'cd' * 32}"),
    ],
)
def test_wrong_archive_is_refused(saved: dict[str, Any], text: str) -> None:
    (found,) = reasons(saved=saved, **ARCHIVE)
    assert found.startswith(text)


@pytest.mark.parametrize(
    ("address", "listener", "refused"),
    [
        ("0.0.0.0:9100", CONFLICT, True),
        ("0.0.0.0:9100", "listener 127.0.0.1:9100 812 - nginx", True),
        ("10.0.0.7:9100", CONFLICT, True),
        ("10.0.0.7:9100", "listener 127.0.0.1:9100 812 - nginx", False),
        ("10.0.0.7:9100", "listener 10.0.0.7:9100 812 - nginx", True),
        ("[fd00::7]:9100", "listener [fd00::7]:9100 812 - nginx", True),
        ("[fd00::7]:9100", "listener 0.0.0.0:9100 812 - nginx", False),
        ("[fd00::7]:9100", "listener [::]:9100 812 - nginx", True),
        ("10.0.0.7:9100", "listener 0.0.0.0:9100 812 - nginx", True),
        ("10.0.0.7:9100", "listener [::]:9100 812 - nginx", False),
        ("[::]:9100", "listener 0.0.0.0:9100 812 - nginx", True),
        ("0.0.0.0:9100", "listener *:9100 812 prometheus-node-exporter.service prometheus-node", False),
        ("0.0.0.0:9100", "listener *:9100 812 node_exporter.service node_exporter", True),
    ],
)
def test_listener_is_refused_if_the_addresses_are_in_conflict(address: str, listener: str, refused: bool) -> None:
    assert bool(reasons(listener, node_exporter_web_listen_address=address)) is refused


def test_refusal_names_the_program_its_pid_and_its_unit() -> None:
    (found,) = reasons(CONFLICT)
    assert found.startswith("node-3: *:9100 is used by node_exporter (PID 812, unit cri-containerd-4f.scope): stop it, or set")
    assert reasons(CONFLICT, node_exporter_method="present") == []
    (found,) = reasons("listener *:9100 812 node_exporter.service node_exporter")
    assert "unit node_exporter.service): set node_exporter_method: archive, which replaces it, or stop it, or set" in found


def test_unit_of_the_other_method_is_accepted_only_if_this_role_has_written_it() -> None:
    listener = "listener *:9100 812 prometheus-node-exporter.service prometheus-node"
    managed = "managed /etc/systemd/system/prometheus-node-exporter.service.d/kube-scheduling.conf"
    assert reasons(listener, managed, **ARCHIVE) == [] and len(reasons(listener, **ARCHIVE)) == 1


def test_unreadable_key_is_refused_with_the_commands() -> None:
    (found,) = reasons("user 997", "group 997", "unreadable /etc/tls/key.pem Permission denied", **SECURED)
    assert found.startswith("node-3: node-exp, ") and "cannot read /etc/tls/key.pem (Permission denied)" in found
    assert "chgrp node-exp and chmod g+r" in found and "groupadd" not in found
    (found,) = reasons("unreadable /etc/tls/key.pem Permission denied", **SECURED)
    assert found.endswith("groupadd --system node-exp")
    (found,) = reasons("unreadable /etc/tls/key.pem No such file or directory", **SECURED)
    assert "create it" in found


# The download on the controller


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    """The URL of a server with one archive."""
    (tmp_path / "www").mkdir()
    (tmp_path / "www" / "good.tar.gz").write_text("archive")

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(tmp_path / "www"))

        def log_message(self, format: str, *arguments: Any) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.ci_more
def test_archive_is_downloaded_and_a_wrong_sum_or_a_missing_archive_is_an_error(
    mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = hashlib.sha256(b"archive").hexdigest()
    cache = tmp_path / "home" / ".cache" / "onprem-kube-scheduling" / "node_exporter"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    include = {"name": "onprem.kube_scheduling.node_exporter", "tasks_from": "download"}
    plays = []
    file_url = (tmp_path / "www" / "good.tar.gz").as_uri()
    secret = mirror.replace("http://", "http://user:word-of-user@")
    for number, (name, url, checksum) in enumerate(
        [
            ("good.tar.gz", mirror, good),
            ("file.tar.gz", file_url, good),
            ("good.tar.gz", mirror, SUM),
            ("missing.tar.gz", secret, SUM),
            ("file.tar.gz", file_url, SUM),
        ]
    ):
        archive = {"url": url if name == "file.tar.gz" else f"{url}/{name}", "file": str(cache / f"{number}-{name}"), "sum": checksum}
        answers = {"results": [{"item": archive, "stat": {"exists": False}}]}
        error = {"ansible.builtin.debug": {"msg": "ERROR {{ ansible_failed_result.msg }}"}}
        plays.append(
            {
                "hosts": "localhost",
                "gather_facts": False,
                "vars": {"__node_exporter_archives": answers},
                "tasks": [{"block": [{"ansible.builtin.include_role": include}], "rescue": [error]}],
            }
        )
    (tmp_path / "play.yml").write_text(json.dumps(plays))
    output = re.sub(r"\s+", " ", ansible_playbook(tmp_path / "play.yml", folder=tmp_path).output)
    assert sorted(file.name for file in cache.iterdir()) == ["0-good.tar.gz", "1-file.tar.gz"]
    assert f"The controller cannot download {mirror}/good.tar.gz: The checksum for" in output
    assert f"did not match {SUM}; it was {good}. Correct node_exporter_checksum, or set" in output
    assert f"The controller cannot download {mirror}/missing.tar.gz: Request failed" in output
    assert f"The controller cannot download {file_url}: The checksum for" in output
    assert output.count("ERROR The controller") == 3 and "word-of-user" not in output


# The program that reads the host


@pytest.mark.skipif(shutil.which("ss") is None or shutil.which("systemctl") is None, reason="needs ss and systemctl")
def test_probe_names_the_listener_and_the_address_of_an_interface(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "LC_ALL": "C",
            "PROBE_USER": "no-such-user",
            "PROBE_GROUP": "no-such-group",
            "PROBE_PROGRAM": str(tmp_path / "program"),
            "PROBE_RECORD": str(tmp_path / "record"),
            "PROBE_PREVIOUS": str(tmp_path / "record"),
            "PROBE_TEXTFILE": str(tmp_path),
            "PROBE_INTERFACES": "lo\nno-such-interface",
            "PROBE_PORTS": str(port),
            "PROBE_FILES": "",
        }
        (tmp_path / "program").write_text("")
        (tmp_path / "record").write_text("one two\n")
        script = ROLE / "files" / "probe.sh"
        lines = subprocess.run(["sh", str(script)], env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("listener ")] == [f"127.0.0.1:{port}"]
    assert "record one two" in lines and "interrupted" in lines and f"self {os.getuid()} {getpass.getuser()}" in lines
    assert "textfile" in lines and not [line for line in lines if line.startswith(("user", "group"))]
    assert "program e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" in lines
    assert not [line for line in lines if line.startswith("address no-such")]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (["2: eno1 inet 10.0.0.7/24 brd 10.0.0.255 scope global eno1", "2: eno1 inet 10.0.0.9/32 scope global eno1"], ["10.0.0.7"]),
        (
            ["2: eno1 inet 10.0.0.7/32 scope global eno1", "2: eno1 inet6 fd00::7/64 scope global dynamic"],
            ["10.0.0.7", "fd00::7"],
        ),
        (
            ["2: eno1 inet6 fd00::9/128 scope global dynamic", "2: eno1 inet6 fd00::7/64 scope global dynamic"],
            ["fd00::7"],
        ),
        (["2: eno1 inet6 fd00::8/64 scope global temporary dynamic", "2: eno1 inet6 fe80::1/64 scope link"], []),
    ],
)
def test_floating_address_of_an_interface_is_left_out(output: list[str], expected: list[str], tmp_path: Path) -> None:
    program = tmp_path / "ip"
    program.write_text('#!/bin/sh\n[ "$2" = address ] && [ "$4" = dev ] && cat <<\'END\'\n' + "\n".join(output) + "\nEND\nexit 0\n")
    program.chmod(0o755)
    names = ("USER", "GROUP", "PROGRAM", "RECORD", "PREVIOUS", "TEXTFILE", "PORTS", "FILES")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "PROBE_INTERFACES": "eno1"} | {f"PROBE_{name}": "" for name in names}
    lines = subprocess.run(["sh", str(ROLE / "files" / "probe.sh")], env=environment, capture_output=True, text=True, check=True).stdout
    assert [line.split()[1:] for line in lines.splitlines() if line.startswith("address ")] == [["eno1", address] for address in expected]


# The earlier files


class Host:
    """A folder with the files of a host, and the program that keeps their earlier state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.old, self.new = folder / "old", folder / "new"

    def run(self, action: str, state: str = "") -> list[str]:
        """Run an action of files/previous.sh for both files. Return its output."""
        environment = {
            "PATH": "/usr/bin:/bin",
            "PREVIOUS_RECORD": str(self.folder / "record"),
            "PREVIOUS_SCRATCH": str(self.folder / "scratch"),
            "PREVIOUS_STATE": state,
        }
        files = [] if action == "restore" else [str(self.old), str(self.new)]
        command = ["sh", str(ROLE / "files" / "previous.sh"), action, *files]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()

    def write(self, text: str) -> None:
        """Replace both files, as Ansible does."""
        for file in (self.old, self.new):
            (self.folder / "temporary").write_text(text)
            (self.folder / "temporary").rename(file)

    def files(self) -> dict[str, str]:
        return {file.name: file.read_text() for file in sorted(self.folder.iterdir()) if file.is_file()}


def test_files_of_an_interrupted_run_are_restored_by_the_next_one(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.old.write_text("first")
    first = host.run("keep", "package installed 1.5.0-1\npid node_exporter.service 812")
    assert first == [f"file {host.old}", f"absent {host.new}", "package installed 1.5.0-1", "pid node_exporter.service 812"]
    host.write("broken")
    assert host.run("keep", "package installed 1.9.0-1") == first
    host.write("broken, too")
    host.run("restore")
    host.run("restore")
    assert host.old.read_text() == "first" and not host.new.exists()
    (tmp_path / "scratch").mkdir()
    host.run("forget")
    assert host.files() == {"old": "first"} and not (tmp_path / "scratch").exists()


def test_earlier_files_are_removed_after_a_start(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.old.write_text("first")
    host.run("keep")
    host.write("second")
    host.run("forget")
    assert host.files() == {"new": "second", "old": "second"}
    host.run("keep")
    host.run("restore")
    host.run("forget")
    host.run("forget")
    assert host.files() == {"new": "second", "old": "second"}


def test_kept_files_without_a_record_are_replaced(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.write("second")
    (tmp_path / "old.kube-scheduling-previous").write_text("of a run that was interrupted while it kept the files")
    host.run("keep")
    host.run("restore")
    assert host.old.read_text() == "second"


# The start


@pytest.mark.parametrize(
    ("answer", "secured", "accepted"),
    [
        ({"status": 200}, {}, True),
        ({"status": 401}, {}, False),
        ({"status": 401}, {"node_exporter_basic_auth_users": {"a": "$2b$10$hash"}}, True),
        ({"status": -1, "msg": "Request failed: <urlopen error [Errno 111] Connection refused>"}, CLIENTS, False),
        ({"status": -1, "msg": "Connection failure: The read operation timed out"}, CLIENTS, False),
        ({"status": -1, "msg": "Request failed: [SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] alert certificate required"}, CLIENTS, True),
        ({"status": -1, "msg": "Connection failure: [Errno 104] Connection reset by peer"}, CLIENTS, True),
        ({"status": -1, "msg": "Connection failure: [Errno 104] Connection reset by peer"}, {}, False),
        ({}, CLIENTS, False),
    ],
)  # fmt: skip
def test_end_of_the_connection_is_an_answer_only_of_a_server_that_requires_certificates(
    answer: dict[str, Any], secured: dict[str, Any], accepted: bool
) -> None:
    texts = task(ROLE, "answer.yml", "Request the metrics")["vars"]
    assert role(**secured)("{{ __node_exporter_is_answer }}", **texts, __node_exporter_answer=answer) is accepted


@pytest.mark.parametrize(
    ("running", "unit", "program", "lines", "restarted"),
    [
        ("same", False, False, (), False),
        ("other", False, False, (), True),
        ("same", True, False, (), True),
        ("same", False, True, (), True),
        ("same", False, False, ("interrupted",), True),
    ],
)
def test_service_is_restarted_if_anything_has_changed(
    running: str, unit: bool, program: bool, lines: tuple[str, ...], restarted: bool
) -> None:
    found = role(
        f"running prometheus-node-exporter.service {running}",
        *lines,
        __node_exporter_configuration="same",
        __node_exporter_unit_written={"changed": unit},
        __node_exporter_program_written={"changed": program},
    )("{{ __node_exporter_is_new }}", **task(ROLE, "start.yml", "Start the service")["vars"])
    assert found is restarted


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
    ],
)
def test_probe_names_the_ipv6_address_of_a_host_without_ipv4(answers: dict[str, str], expected: str, tmp_path: Path) -> None:
    cases = "".join(f"*'{words}'*) echo '{answer}';;\n" for words, answer in answers.items())
    (tmp_path / "ip").write_text(f'#!/bin/sh\ncase "$*" in\n{cases}*) echo "RTNETLINK answers: Network is unreachable" >&2;;\nesac\n')
    (tmp_path / "ip").chmod(0o755)
    empty = dict.fromkeys(("USER", "GROUP", "PROGRAM", "RECORD", "PREVIOUS", "TEXTFILE", "INTERFACES", "PORTS", "FILES"), "")
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"} | {f"PROBE_{name}": value for name, value in empty.items()}
    script = ROLE / "files" / "probe.sh"
    lines = subprocess.run(["sh", str(script)], env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line for line in lines if line.startswith("source")] == [f"source {expected}"]
