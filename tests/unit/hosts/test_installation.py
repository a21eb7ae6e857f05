# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An installation that does not answer is rolled back, and one that is unchanged is not restarted. No program of the host is run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common import files
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import Answer, HostError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter import host as host_module
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter import installation
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter.host import UNIT_FILES
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.node_exporter.installation import Installation

from tests.unit.hosts.node_exporter_host import HostWith, wanted

HASH = "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
GOOD = Answer(200, 'node_exporter_build_info{version="1.12.0"} 1', "")
REFUSED = Answer(-1, "", "Request failed: <urlopen error [Errno 111] Connection refused>")
STOPPED = {"MainPID --value prometheus-node-exporter.service": "0"}
RUNS = {"MainPID --value prometheus-node-exporter.service": "812", "is-enabled": "", "ss --listening": "pid=812,"}
ANSWERS = {"systemctl": "", "journalctl": "it is broken\nit is broken\nbegin\n", "dpkg-query": "installed 1.9.0-1", **RUNS}


class Place:
    """A folder with the files of a host, and its installation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.commands: list[str] = []
        self.variables: dict[str, Any] = {
            "config_dir": str(folder / "config"),
            "binary_install_dir": str(folder / "bin"),
            "textfile_dir": "",
            "basic_auth_users": {"prometheus": HASH},
        }

    def installation(self, answer: Answer, *, dry: bool = False, answers: dict[str, str] | None = None, **contents: Any) -> Installation:
        host = HostWith(wanted(**self.variables), {**RUNS, **ANSWERS, **(answers or {})}, **contents)
        run = host.run

        def recorded(words: Any) -> tuple[int, str, str]:
            self.commands.append(" ".join(words))
            return run(words)

        host.run = recorded
        return Installation(host, lambda: answer, dry=dry)

    def end(self, error: type[BaseException] | BaseException, unit: str, **contents: Any) -> BaseException:
        """Let a run end with an error before it knows whether node_exporter answers. Return the error of the run."""
        run = self.installation(GOOD, **contents)

        def ended() -> Answer:
            raise error

        run.ask = ended
        with pytest.raises((KeyboardInterrupt, HostError)) as found:
            run.present(unit)
        return found.value

    def texts(self) -> dict[str, str]:
        return {str(file.relative_to(self.folder)): file.read_text() for file in sorted(self.folder.rglob("*")) if file.is_file()}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    for method in UNIT_FILES:
        monkeypatch.setitem(UNIT_FILES, method, str(tmp_path / method / "unit"))
    for module in (installation, host_module):
        monkeypatch.setattr(module, "TMPFILES", str(tmp_path / "tmpfiles"))
    monkeypatch.setattr(host_module, "PREVIOUS", str(tmp_path / "previous"))
    monkeypatch.setattr(installation, "DROP_IN_FOLDER", str(tmp_path / "package"))
    monkeypatch.setattr(installation, "TRIES", 1)
    monkeypatch.setattr(installation.time, "sleep", lambda delay_s: None)
    monkeypatch.setattr(files.os, "fchown", lambda *arguments: None)  # the tests need no root
    return Place(tmp_path)


def test_a_first_installation_that_does_not_answer_is_removed_with_the_reason(place: Place) -> None:
    run = place.installation(REFUSED, answers=STOPPED)
    with pytest.raises(HostError) as error:
        run.present("[Service]")
    assert str(error.value) == (
        "node-3: node_exporter is not installed. Request the metrics: Status code was -1 and not [200]: Request failed: "
        "<urlopen error [Errno 111] Connection refused>. The journal of prometheus-node-exporter.service ends with: begin | it is broken. "
        "The host has its earlier files and version again. Correct the variables, or the version, and run this again"
    )
    assert place.texts() == {} and "systemctl disable --now prometheus-node-exporter.service" in place.commands


def test_an_upgrade_that_does_not_answer_gets_the_earlier_files_and_is_started_again(place: Place) -> None:
    place.installation(GOOD).present("[Service]")
    before = place.texts()
    assert (
        "Environment=NODE_EXPORTER_CONFIGURATION=" in before["package/unit"]
        and f'"prometheus": "{HASH}"' in before["config/web_config.yml"]
    )
    place.variables["basic_auth_users"] = {"other": HASH}
    run = place.installation(REFUSED, managed=["package"])
    place.commands.clear()
    with pytest.raises(HostError, match=r"The host has its earlier files and version again\. Correct the variables"):
        run.present("[Service]\n# new")
    assert place.texts() == before
    assert place.commands.count("systemctl restart prometheus-node-exporter.service") == 2
    assert "systemctl disable --now prometheus-node-exporter.service" not in place.commands


def test_a_rollback_that_fails_is_named_and_the_next_run_repeats_it(place: Place) -> None:
    place.installation(GOOD).present("[Service]")
    before = place.texts()
    place.end(KeyboardInterrupt, "[Service]\n# new", managed=["package"], answers={"dpkg-query": "installed 1.5.0-1"})
    with pytest.raises(HostError, match=r"The rollback failed, too: apt-get: no such program\. Correct"):
        place.installation(REFUSED, managed=["package"]).present("[Service]\n# new")
    assert place.texts()["package/unit"] == before["package/unit"] and (place.folder / "previous").exists()
    full = place.end(OSError("No space left on device"), "[Service]", managed=["package"], answers={"apt-get": ""})
    assert str(full).endswith("The host has its earlier files and version again. Free disk space (df -h), and run this again")
    assert place.texts() == before


def test_a_package_is_installed_after_its_drop_in_and_one_that_apt_refuses_is_rolled_back(place: Place) -> None:
    place.variables["version"] = "1.9"
    answers = {"dpkg-query": "", "apt-get": "", **STOPPED}
    place.installation(GOOD, answers=answers).present("[Service]")
    (install,) = [command for command in place.commands if "apt-get" in command and " install " in command]
    assert install.endswith(" install prometheus-node-exporter=1.9*") and "--no-install-recommends" in install
    assert 'ExecStart=/usr/bin/prometheus-node-exporter \\\n  "--collector' in place.texts()["package/unit"]
    before = place.texts()
    place.variables["version"] = "9.9"
    refused = place.installation(GOOD, managed=["package"])
    with pytest.raises(HostError, match=r"node_exporter 9\.9 is not installed\. apt-get: no such program\. The host has its earlier files"):
        refused.present("[Service]\n# new")
    assert place.texts() == before


WRITES = {"install --mode": "", **STOPPED}


@pytest.mark.parametrize("change", ["nothing", "stopped", "configuration", "edited", "interrupted"])
def test_service_is_restarted_if_anything_has_changed(change: str, place: Place) -> None:
    first = place.installation(GOOD)
    first.present("[Service]")
    unit = place.folder / "package" / "unit"
    running = unit.read_text().rpartition("=")[2].strip()
    if change == "edited":
        unit.write_text(unit.read_text() + "# by hand\n")
    if change == "interrupted":
        place.end(KeyboardInterrupt, "[Service]", managed=["package"])
    unit.chmod(0o644)
    answers = STOPPED if change == "stopped" else {}
    run = place.installation(
        GOOD, managed=["package"], configuration="other" if change == "configuration" else running, answers=answers, uid=0, gid=0
    )
    place.commands.clear()
    run.present("[Service]")
    assert ("systemctl restart prometheus-node-exporter.service" in place.commands) is (change != "nothing")


def test_check_mode_changes_nothing_and_shows_the_unit_but_no_hash(place: Place) -> None:
    run = place.installation(REFUSED, dry=True, answers=STOPPED)
    run.present("[Service]")
    assert place.texts() == {} and run.changes.changed
    assert [diff["after_header"] for diff in run.changes.diffs] == [UNIT_FILES["package"]] and "$2b" not in str(run.changes.diffs)
    assert not [command for command in place.commands if command.startswith("systemctl re")]


def test_a_program_of_another_version_replaces_nothing(place: Place) -> None:
    place.variables |= {"method": "archive", "version": "1.11.1", "archive_sum": "ab", "new_program": "/tmp/new"}
    folder = place.folder / "bin"
    folder.mkdir()
    beside = folder / ".node_exporter.new"
    beside.write_text("program")  # as the program install writes it
    with pytest.raises(HostError, match=r"it is another version than 1\.11\.1: node_exporter, version 1\.11\.10 \(branch"):
        place.installation(GOOD, answers={"sh -c": "node_exporter, version 1.11.10 (branch: HEAD)", **WRITES}).present("[Service]")
    assert place.texts() == {} and not beside.exists()
    beside.write_text("program")
    run = place.installation(GOOD, answers={"sh -c": "node_exporter, version 1.11.1 (branch: HEAD)", **WRITES})
    run.present("[Service]")
    assert f"install --mode=0755 /tmp/new {beside}" in place.commands
    assert (folder / "node_exporter").read_text() == "program" and run.host.is_installed() and not beside.exists()
    assert run.result()["version"] == "1.12.0" and run.result()["unit"] == "node_exporter.service"
