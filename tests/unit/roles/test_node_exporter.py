# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The role node_exporter: its variables, the unit that it writes, and the archive on the controller.

tests/unit/hosts has the tests of what runs on a host.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import tarfile
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.onprem.kube_scheduling.plugins.action.node_exporter_host import archive_problem, find_archive, wanted_variables
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.installation.rules import node_exporter
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils import role_variables as action
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.program_archive import ProgramArchive

from tests.integration.roles.host_cases import CasesRun, play_role
from tests.integration.roles.role_play import RolePlay
from tests.unit.roles.role_variables import RoleVariables
from tools.paths import ROOT

ROLE = ROOT / "roles" / "node_exporter"
SPECS: dict[str, Any] = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text())["argument_specs"]
OPTIONS: dict[str, dict[str, Any]] = SPECS["main"]["options"]
DEFAULTS = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text())
SUM = "ab" * 32
ARCHIVE = {
    "node_exporter_method": "archive",
    "node_exporter_version": "1.11.1",
    "node_exporter_archive_path": "/srv/node_exporter-{version}.linux-{architecture}.tar.gz",
    "node_exporter_checksum": f"sha256:{SUM}",
}


def role(**variables: Any) -> RoleVariables:
    return RoleVariables(ROLE, variables)


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
    "undefined": {"basic_auth_users": {"prometheus": "word-of-user{{ 1 | nofilter }}"}, "version": "latest"},
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
        "node_exporter_version is empty: it must be the version of the archive",
        "node_exporter_checksum is ab12: it must be sha256:",
        'node_exporter_enabled_collectors has the item {"netdev": "eth0"}: it must be a name',
        "node_exporter_disabled_collectors has systemd, which node_exporter_enabled_collectors has, too",
        "node_exporter_web_listen_address has ::1:9100: it must be IPv4:port",
        "node_exporter_web_listen_address has 9100: it must be",
        "node_exporter_tls_server_config has no key_file",
        'node_exporter_config_dir is "etc": it must begin with /',
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
        ("web_listen_address", "0.0.0.0:99999", "has 0.0.0.0:99999: it must be"),
        ("web_listen_address", ":0", "has :0: it must be"),
        ("web_listen_address", [], "has no address: it must be"),
        ("checksum", {}, "is empty: it must be sha256:"),
        ("version", "0.18.1", "is 0.18.1: it must be 1.5.0 or later"),
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


def test_a_secret_that_cannot_be_evaluated_is_not_shown(checked: CasesRun) -> None:
    failure = checked.failure("undefined")
    assert "node_exporter_basic_auth_users has a value that cannot be evaluated: correct its template" in failure, checked.output
    assert "node_exporter_version is latest" in failure and "word-of-user" not in checked.output and "nofilter" not in failure


def test_variables_of_the_other_role_are_accepted_with_a_warning(checked: CasesRun) -> None:
    assert checked.failure("other-role") == "", checked.output
    assert "[WARNING]: node_exporter_local_cache_path has no effect in this role" in checked.in_one_line
    assert "or to package or archive" in checked.in_one_line


# The unit


def test_drop_in_replaces_the_command_of_the_package_and_the_archive_has_a_whole_unit() -> None:
    drop_in, unit = role().render("unit.j2"), role(**ARCHIVE).render("unit.j2")
    assert "EnvironmentFile=\nExecStart=\n" in drop_in and "[Install]" not in drop_in
    assert "WantedBy=multi-user.target" in unit and "EnvironmentFile" not in unit and "ExecStart=" not in unit
    hardening = unit[unit.index("NoNewPrivileges") :]
    assert drop_in.endswith(hardening) and "ProtectSystem=strict" in hardening and "CapabilityBoundingSet=\n" in hardening


# The variables for the host, and the archive on the controller


class Values:
    """A templar for values that are no templates."""

    def template(self, value: Any) -> Any:
        return value


def read(task_vars: dict[str, Any]) -> action.RoleVariables:
    """Return the function that reads a variable of the role."""
    return action.RoleVariables("node_exporter", Values(), task_vars)


HOST = {"inventory_hostname": "node-3", "ansible_facts": {"architecture": "x86_64", "os_family": "Debian"}}


def found_archive(architecture: str = "x86_64", **variables: Any) -> ProgramArchive:
    task_vars = DEFAULTS | HOST | {"ansible_facts": {"architecture": architecture}} | ARCHIVE | variables
    found: ProgramArchive = find_archive(read(task_vars), task_vars)
    return found


def test_values_of_yaml_become_those_that_the_host_expects() -> None:
    given = {"version": 1.9, "web_listen_address": "0.0.0.0:9100", "web_disable_exporter_metrics": "yes"}
    task_vars = DEFAULTS | HOST | {f"node_exporter_{name}": value for name, value in given.items()}
    found = wanted_variables(read(task_vars), task_vars)
    assert found["version"] == "1.9" and found["web_listen_address"] == ["0.0.0.0:9100"]
    assert found["web_disable_exporter_metrics"] is True and found["facts"]["os_family"] == "Debian"


def test_checksum_may_depend_on_the_architecture() -> None:
    sums = {"node_exporter_checksum": {"amd64": "sha256:" + "AB" * 32, "arm64": "sha256:" + "cd" * 32}}
    found = found_archive("aarch64", **sums)
    assert (found.place, found.sum, found.is_url) == ("/srv/node_exporter-1.11.1.linux-arm64.tar.gz", "cd" * 32, False)
    assert found_archive(**sums).sum == SUM
    no_sum = archive_problem(found_archive("riscv64", **sums), HOST | {"ansible_facts": {"architecture": "riscv64"}})
    assert no_sum.startswith("node-3 is riscv64, and node_exporter_checksum has no sum for it")


def test_an_archive_at_a_url_is_not_read_before_it_is_needed() -> None:
    found = found_archive(node_exporter_archive_path="")
    assert found.is_url and found.place.endswith("/v1.11.1/node_exporter-1.11.1.linux-amd64.tar.gz")
    assert str(found.program).endswith(f"/node_exporter/{SUM[:12]}/node_exporter")
    assert archive_problem(found, HOST) == ""


# The download on the controller


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    """The URL of a server with one archive."""
    (tmp_path / "www").mkdir()
    with tarfile.open(tmp_path / "www" / "good.tar.gz", "w:gz") as opened:
        member = tarfile.TarInfo("node_exporter-1.11.1.linux-amd64/node_exporter")
        member.size = len(b"program")
        opened.addfile(member, io.BytesIO(b"program"))

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(tmp_path / "www"))

        def log_message(self, format: str, *arguments: Any) -> None:
            """Write nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_the_program_of_an_archive_is_taken_once_and_a_wrong_or_missing_archive_is_an_error(
    mirror: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    good = hashlib.sha256((tmp_path / "www" / "good.tar.gz").read_bytes()).hexdigest()
    names = ("node_exporter", "node_exporter_binary_url", "node_exporter_checksum", "the archive of a release of node_exporter")
    secret = mirror.replace("http://", "http://user:word-of-user@")
    file = tmp_path / "www" / "good.tar.gz"
    for place, checksum, error in (
        (f"{mirror}/good.tar.gz", SUM, f"{mirror}/good.tar.gz has the SHA-256 sum {good}, and node_exporter_checksum is {SUM}: copy the"),
        (f"{secret}/missing.tar.gz", SUM, f"{mirror}/missing.tar.gz, which node_exporter_binary_url names, cannot be read (HTTP Error 404"),
        (file.as_uri(), SUM, f"{file.as_uri()} has the SHA-256 sum {good}"),
        (f"{file}.missing", SUM, "cannot be read ([Errno 2] No such file or directory"),
    ):
        refused = ProgramArchive(place, checksum, *names)
        problem = refused.take()
        assert error in problem and "word-of-user" not in problem and not refused.program.exists(), problem
    archive = ProgramArchive(f"{mirror}/good.tar.gz", good, *names)
    assert archive.take() == "" and archive.program.read_text() == "program"
    file.unlink()
    assert archive.take() == "", "the controller has the program"
