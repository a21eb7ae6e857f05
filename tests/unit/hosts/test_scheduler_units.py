# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units that do not become ready are rolled back, also after an interruption. The programs of the host are simulated."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts import scheduler_units
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common import system
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.files import Changes
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.system import Answer, HostError, Listener
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.scheduler_units import MARK, UnitsHost

EXTENDER, SECOND, SCHEDULER = (f"kube-scheduling-{name}.service" for name in ("extender-1", "extender-2", "scheduler"))
GOOD, REFUSED = Answer(200, "ok", ""), Answer(-1, "", "Request failed: refused")
KUBECONFIG = "clusters:\n- cluster:\n    server: https://10.0.0.1:6443\n"


class Machine:
    """A folder with the files of a host, and a systemd that remembers the units of its processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.system = folder / "system"
        self.system.mkdir()
        (folder / "kube-scheduler").write_text("program")
        self.running: dict[str, str] = {}
        self.commands: list[str] = []
        self.answers = {
            "systemctl show --property=Version": "252.39-1",
            "python3 -c": "/usr/bin/python3.11 3.11",
            "--version": "Kubernetes v1.36.3",
        }
        self.listeners: list[Listener] = []
        self.user = ""

    def wanted(self, *, settings: str = "a", extenders: int = 1, **variables: Any) -> SimpleNamespace:
        names = [f"extender-{number}" for number in range(1, extenders + 1)] + ["scheduler"]
        folder = self.folder / "etc" / "systemd"
        units = []
        for name in names:
            is_scheduler = name == "scheduler"
            words = [f"{self.folder}/opt/kube-scheduler-1"] if is_scheduler else ["@PYTHON@", "extender"]
            file = f"{folder}/{name}-{settings}/{name.split('-')[0]}.yaml"
            units.append(
                {
                    "name": f"kube-scheduling-{name}.service",
                    "text": f"LoadCredential={Path(file).name}:{file}\nExecStart={' '.join(words)} @SERVICES@",
                    "folder": f"{folder}/{name}-{settings}",
                    "check": [*words, "--write-config-to=/dev/null" if is_scheduler else "--check-config"],
                    "url": f"http://127.0.0.1/{name}",
                }
            )
        files = {
            f"kube-scheduling-{name}.service": {
                f"{name.split('-')[0]}.yaml": f"profiles:\n- schedulerName: network-traffic\n# {settings}\n",
                "kubeconfig": KUBECONFIG,
            }
            for name in names
        }
        given = {
            "state": "present",
            "program_folder": str(self.folder / "opt"),
            "units_folder": str(folder),
            "system_folder": str(self.system),
            "python": "python3",
            "secure_port": 10259,
            "wait_timeout": 1,
            "validate": True,
            "program": "kube-scheduler-1",
            "services": "0123",
            "ports": ["5401", "10259"],
            "names": [],
            "kubernetes_version": "1.36.3",
        }
        sources = {"program": str(self.folder / "kube-scheduler"), "services": "services.tar"}
        return SimpleNamespace(host="host-1", files=files, sources=sources, variables=given | {"units": units} | variables)

    def host(self, ask: Callable[[str], Answer] = lambda url: GOOD, *, dry: bool = False, **variables: Any) -> UnitsHost:
        found = UnitsHost(self.wanted(**variables), self.run, ask, Changes(dry))
        found.user = self.user
        found.machine = variables.get("machine", "x86_64")
        return found

    def present(self, ask: Callable[[str], Answer] = lambda url: GOOD, **variables: Any) -> UnitsHost:
        run = self.host(ask, **variables)
        run.present()
        return run

    def install(self, **variables: Any) -> None:
        self.present(**variables)
        self.host(**variables).accepted()

    def run(self, words: Sequence[str]) -> tuple[int, str, str]:
        command = " ".join(words)
        self.commands.append(command)
        if words[0] == "systemctl" and words[-2] == "restart":
            found = re.search(rf"{MARK}=(.*)", (self.system / words[-1]).read_text())
            self.running[words[-1]] = found.group(1) if found else ""
        if words[:4] == ["systemctl", "--quiet", "disable", "--now"]:
            self.running.pop(words[-1], None)
        if words[0] == "install":
            Path(words[-1]).write_text(Path(words[-2]).read_text())
        if "pip" in words:
            (Path(words[1].partition("=")[2]) / "libraries").mkdir()
        for part, text in self.answers.items():
            if part in command:
                return (1, "", text.removeprefix("!")) if text.startswith("!") else (0, text, "")
        return 0, "", ""

    def texts(self) -> dict[str, str]:
        folders = (self.folder / name for name in ("system", "etc", "opt"))
        return {str(f.relative_to(self.folder)): f.read_text() for folder in folders for f in sorted(folder.rglob("*")) if f.is_file()}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(scheduler_units, "process_value", lambda run, unit, name: made.running.get(unit, ""))
    monkeypatch.setattr(system, "listeners", lambda run, ports: made.listeners)
    return made


def refuse(part: str) -> Callable[[str], Answer]:
    """Return what answers each request but those whose URL has this part."""
    return lambda url: REFUSED if part in url else GOOD


def test_units_are_installed_extenders_first_and_a_second_run_changes_nothing(machine: Machine) -> None:
    machine.install()
    texts = machine.texts()
    assert set(texts) == {
        f"system/{EXTENDER}",
        f"system/{SCHEDULER}",
        *(
            f"etc/systemd/{name}-a/{file}"
            for name, files in (("extender-1", "extender"), ("scheduler", "scheduler"))
            for file in (f"{files}.yaml", "kubeconfig")
        ),
        "opt/kube-scheduler-1",
    }
    assert (machine.folder / "opt" / "services-0123-3.11-x86_64").is_dir()
    assert "/usr/bin/python3.11 extender" in texts[f"system/{EXTENDER}"] and "services-0123-3.11-x86_64" in texts[f"system/{EXTENDER}"]
    assert [command for command in machine.commands if " restart " in command] == [
        f"systemctl --quiet restart {name}" for name in (EXTENDER, SCHEDULER)
    ]
    for folder in ("etc/systemd", "etc/systemd/scheduler-a"):
        assert (machine.folder / folder).stat().st_mode & 0o777 == 0o700
    assert (machine.folder / "etc/systemd/scheduler-a/kubeconfig").stat().st_mode & 0o777 == 0o600
    again = machine.present()
    assert not again.changes.changed and again.checked()["missing"] == [] and again.checked()["profiles"] == ["network-traffic"]


@pytest.mark.parametrize("what", ["stopped", "edited unit", "edited file", "removed", "earlier extender", "interrupted"])
def test_each_difference_is_named_and_repaired(machine: Machine, what: str) -> None:
    machine.install(extenders=2 if what == "earlier extender" else 1)
    texts = machine.texts()
    unit, file = machine.system / EXTENDER, machine.folder / "etc/systemd/scheduler-a/scheduler.yaml"
    if what == "stopped":
        machine.running.pop(SCHEDULER)
    elif what == "edited unit":
        unit.write_text(unit.read_text() + "# by hand\n")
    elif what == "edited file":
        file.write_text("profiles: []\n")
    elif what == "removed":
        unit.unlink()
    elif what == "interrupted":
        machine.present(settings="b")
    assert machine.host().checked()["missing"] == [
        "host-1: units differ from the variables, or do not run: run the playbook onprem.kube_scheduling.site or "
        "onprem.kube_scheduling.scheduler"
    ]
    machine.commands.clear()
    machine.install()
    assert machine.host().checked()["missing"] == []
    expected = {name: text for name, text in texts.items() if "extender-2" not in name} if what == "earlier extender" else texts
    assert machine.texts() == expected
    restarted = {"stopped": {SCHEDULER}, "edited file": {SCHEDULER}, "earlier extender": set()}.get(what)
    if restarted is not None:
        assert {command.split()[-1] for command in machine.commands if " restart " in command} == restarted


@pytest.mark.parametrize("unit", [EXTENDER, SCHEDULER])
def test_units_that_worked_last_run_again_with_the_reason_and_the_journal(machine: Machine, unit: str) -> None:
    machine.install()
    before, running = machine.texts(), dict(machine.running)
    machine.answers["journalctl"] = "it is broken\nbegin\n"
    with pytest.raises(HostError) as error:
        machine.present(refuse(unit.removeprefix("kube-scheduling-").removesuffix(".service")), settings="b")
    assert str(error.value) == (
        f"host-1: {unit} is not ready after 1 s: Status code was -1 and not [200]: Request failed: refused. "
        f"The journal of {unit} ends with: begin | it is broken. The units that worked last run again"
    )
    assert machine.running == running and {name: text for name, text in machine.texts().items() if "-b/" not in name} == before


def test_units_of_a_first_installation_that_are_not_ready_are_removed(machine: Machine) -> None:
    with pytest.raises(HostError, match="The host had no units that worked, so these are removed"):
        machine.present(refuse("scheduler"))
    assert machine.running == {} and list(machine.system.iterdir()) == []


def test_run_that_is_ended_while_it_waits_restores_the_units(machine: Machine) -> None:
    machine.install()
    before = dict(machine.running)

    def ended(url: str) -> Answer:
        if "6443" in url:
            return GOOD
        raise HostError("the run was ended by the signal 15")

    with pytest.raises(HostError, match=r"^host-1: the run was ended by the signal 15\. The units that worked last run again$"):
        machine.present(ended, settings="b")
    assert machine.running == before


def test_later_failure_restores_the_units_that_worked_before_an_interrupted_run(machine: Machine) -> None:
    machine.install()
    before = dict(machine.running)
    machine.present(settings="b")  # the controller was interrupted before it accepted them
    machine.present(settings="c")
    assert machine.host(settings="c").restored()["text"] == "host-1: The units that worked last run again"
    assert machine.running == before and machine.host(settings="c").restored()["text"] == ""


def test_rollback_that_fails_is_named_and_can_be_repeated(machine: Machine) -> None:
    machine.install()
    machine.present(settings="b")
    machine.answers["systemctl --quiet restart"] = "!Job failed"
    assert machine.host(settings="b").restored()["text"].startswith("host-1: The rollback failed, too: systemctl restart ")
    del machine.answers["systemctl --quiet restart"]
    assert machine.host(settings="b").restored()["text"] == "host-1: The units that worked last run again"


@pytest.mark.parametrize(
    ("answers", "asked", "text"),
    [
        ({"--check-config": '!E0101 main.go] err="no \\"agent\\" x"'}, "", f'{EXTENDER} refuses its settings: no "agent" x'),
        ({"--write-config-to": "!a\nb\nc\nd"}, "", "kube-scheduler refuses the configuration: b c d"),
        ({"--version": "Kubernetes v1.34.1"}, "", "kube-scheduler is Kubernetes v1.34.1, and the API server is 1.36.3: use a"),
        ({"--version": "!cannot execute"}, "", "kube-scheduler is unknown, and"),
        ({}, "6443", "host-1 does not reach the API server https://10.0.0.1:6443, which the kubeconfig names (Status code was -1"),
    ],
)
def test_files_that_a_program_refuses_change_no_unit(machine: Machine, answers: dict[str, str], asked: str, text: str) -> None:
    machine.answers = answers | machine.answers | answers
    with pytest.raises(HostError) as error:
        machine.present(refuse(asked) if asked else lambda url: GOOD)
    assert text in str(error.value) and str(error.value).endswith("\nNo unit of host-1 was changed"), error.value
    assert list(machine.system.iterdir()) == [] and not machine.host().previous.is_kept()


def test_check_mode_changes_nothing_and_shows_the_units_but_no_key(machine: Machine) -> None:
    run = machine.host(dry=True)
    run.present()
    assert run.changes.changed and machine.texts() == {} and not [one for one in machine.commands if "--quiet" in one]
    assert [diff["after_header"] for diff in run.changes.diffs] == [f"{machine.system}/{name}" for name in (EXTENDER, SCHEDULER)]
    machine.install()
    texts = machine.texts()
    removal = machine.host(dry=True, state="absent", units=[])
    removal.absent()
    assert removal.changes.changed and machine.texts() == texts and len(machine.running) == 2


def earlier_version(machine: Machine) -> None:
    """Write the files of the version of the role that had a folder and a link for the units that worked last."""
    folder, opt = machine.folder / "etc" / "systemd", machine.folder / "opt"
    for name in ("units-11", "scheduler-22", "extender-1-33"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_text(name)
    (folder / "healthy").symlink_to("units-11")
    for name in ("services-44", ".services-45"):
        (opt / name).mkdir(parents=True)
    (opt / "kube-scheduler-46").write_text("program")
    for name, unit in (("scheduler-22", SCHEDULER), ("extender-1-33", EXTENDER)):
        (machine.system / unit).write_text(f"LoadCredential=scheduler.yaml:{folder}/{name}/file\nEnvironment={MARK}={name}\n")
        machine.running[unit] = name


def test_earlier_version_is_restored_upgraded_and_removed_without_a_rest(machine: Machine) -> None:
    earlier_version(machine)
    before = machine.texts()
    with pytest.raises(HostError, match="The units that worked last run again"):
        machine.present(refuse("scheduler"))
    assert before.items() <= machine.texts().items() and machine.running == {SCHEDULER: "scheduler-22", EXTENDER: "extender-1-33"}
    machine.install()
    assert not [name for name in machine.texts() if re.search(r"-[1-4][1-6]\b|healthy", name)]
    assert sorted(path.name for path in (machine.folder / "opt").iterdir()) == ["kube-scheduler-1", "services-0123-3.11-x86_64"]


@pytest.mark.parametrize("is_earlier", [True, False])
def test_removal_leaves_only_files_of_others(machine: Machine, is_earlier: bool) -> None:
    if is_earlier:
        earlier_version(machine)
    else:
        machine.install()
        machine.present(settings="b")
    foreign = machine.folder / "opt" / "other"
    foreign.write_text("of others")
    run = machine.host(state="absent", units=[])
    run.absent()
    assert run.changes.changed and machine.texts() == {"opt/other": "of others"} and machine.running == {}
    assert not (machine.folder / "etc").exists()
    again = machine.host(state="absent", units=[])
    again.absent()
    assert not again.changes.changed


@pytest.mark.parametrize(
    ("changes", "texts"),
    [
        ({}, []),
        ({"user": "admin"}, [": the tasks run as admin, and the units need root: set extended_scheduler_become: true"]),
        ({"answers": {"Version": "!not booted"}}, [" does not run systemd: choose another host, or extended_scheduler_shape: second"]),
        ({"answers": {"Version": "249.1"}}, [" has systemd 249, and the units need 252 or later: upgrade"]),
        ({"answers": {"python3 -c": "!no such program"}}, [" has no program python3: install Python 3.11 or later, and set"]),
        (
            {"answers": {"python3 -c": "/usr/bin/python3.9 3.9"}, "machine": "ppc64le"},
            [
                " is ppc64le, and the extender has libraries only for x86_64 and aarch64",
                ": python3 is Python 3.9, and the extender needs one from 3.11",
            ],
        ),
        (
            {
                "listeners": [Listener("*:10259", (7,), "", "kube-scheduler"), Listener("127.0.0.1:5401", (8,), SCHEDULER, "python3")],
                "answers": {"MainPID": "8"},
            },
            [": *:10259 is used by kube-scheduler (PID 7): stop it, or set extended_scheduler_secure_port to another port"],
        ),
        ({"listeners": [Listener("*:5401", (7,), "x.service", "nginx")]}, [": *:5401 is used by nginx (PID 7, unit x.service): stop it"]),
        ({"names": ["prometheus.invalid"]}, [" does not resolve prometheus.invalid, the host of a source. The extender"]),
    ],
)
def test_each_obstacle_is_named(machine: Machine, changes: dict[str, Any], texts: list[str]) -> None:
    (machine.system / SCHEDULER).write_text("[Unit]\n")
    machine.answers = changes.get("answers", {}) | machine.answers | changes.get("answers", {})
    machine.user, machine.listeners = changes.get("user", ""), changes.get("listeners", [])
    problems = machine.host(**{name: changes[name] for name in ("names", "machine") if name in changes}).checked()["problems"]
    assert len(problems) == len(texts) and all(map(str.startswith, problems, [f"host-1{text}" for text in texts])), problems
