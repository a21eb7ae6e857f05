# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The units of systemd that the role extended_scheduler writes on hosts, and what the controller has for them."""

from __future__ import annotations

import base64
import hashlib
import importlib
import io
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml
from ansible.errors import AnsibleActionFail
from ansible_collections.onprem.kube_scheduling.plugins.action import scheduler_units_host
from ansible_collections.onprem.kube_scheduling.plugins.action.scheduler_units_host import (
    IMAGE_CONTEXT,
    extender_archive,
    kube_scheduler,
    kubeconfigs,
    units,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.common.certificate import Certificate
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.scheduler_units import Unit, made_units

from tests.unit.second_scheduler.requested import files
from tools.paths import ROOT

SYSTEMD_ANALYZE = shutil.which("systemd-analyze")
MOST_EXPOSURE = 20
"""The limit of `systemd-analyze security`, in tenths."""
PYTHON, SERVICES = "/usr/bin/python3.11", "/opt/kube-scheduling/services-0123-3.11-x86_64"
SCHEDULER, FIRST, SECOND = (f"kube-scheduling-{name}.service" for name in ("scheduler", "extender-1", "extender-2"))
LOGIN = "user:T0KEN@"


def rendered(unit: dict[str, Any]) -> str:
    """Return the text of a unit, with the options of Ansible's template module."""
    template = (ROOT / "roles" / "extended_scheduler" / "templates" / "unit.j2").read_text()
    return jinja2.Environment(trim_blocks=True, keep_trailing_newline=True).from_string(template).render(__extended_scheduler_unit=unit)


def units_of(folder: str = "/opt/kube-scheduling", python: str = PYTHON, **variables: Any) -> dict[str, Unit]:
    """Return the units by their names, in their order. The variables are those of the files of the role."""
    made = files(shape="systemd", **variables)
    assert made["mistakes"] == []
    given = {
        "__files": made,
        "__config": yaml.safe_dump(made["scheduler"]),
        "__extender_texts": [yaml.safe_dump(extender["settings"]) for extender in made["extenders"]],
        "__units_folder": "/etc/kubernetes/extended-scheduler/systemd",
        "program_folder": folder,
        "secure_port": 10359,
        "verbosity": 4,
    }
    texts = {"scheduler": "kubeconfig of the scheduler", "extender": "kubeconfig of the extenders"}
    described, contents = units(given.__getitem__, texts, "kube-scheduler-cccccccccccc", rendered)
    return {unit.name: unit for unit in made_units(described, contents, python, SERVICES)}


def lines_of(unit: Unit, name: str) -> list[str]:
    """Return the values of a setting of a unit."""
    text = unit.marked_text.replace("\\\n", " ")
    return [" ".join(line.partition("=")[2].split()) for line in text.splitlines() if line.startswith(f"{name}=")]


def test_units_run_the_programs_in_the_folder_of_their_own_files() -> None:
    made = units_of(preset="safe_pigeon", prometheus_urls=["http://prometheus.example.org:9090"])
    assert list(made) == [FIRST, SECOND, SCHEDULER]
    scheduler, first = made[SCHEDULER], made[FIRST]
    assert lines_of(scheduler, "ExecStart") == [
        "/opt/kube-scheduling/kube-scheduler-cccccccccccc --config=scheduler.yaml --authentication-kubeconfig=kubeconfig "
        "--authorization-kubeconfig=kubeconfig --secure-port=10359 -v=4"
    ]
    assert lines_of(first, "ExecStart") == [
        f"{PYTHON} -m ansible_collections.onprem.kube_scheduling.services extender --config extender.yaml"
    ]
    assert {"KUBECONFIG=kubeconfig", f"PYTHONPATH={SERVICES}"} <= set(lines_of(first, "Environment"))
    # The extenders start first.
    assert lines_of(scheduler, "After") == [f"network-online.target {FIRST} {SECOND}"]
    for unit, name in ((scheduler, "scheduler"), (first, "extender")):
        assert lines_of(unit, "LoadCredential") == [f"{file}:{unit.folder}/{file}" for file in unit.files]
        assert set(unit.files) == {f"{name}.yaml", "kubeconfig"} and lines_of(unit, "DynamicUser") == ["yes"]
    configuration = yaml.safe_load(scheduler.files["scheduler.yaml"])
    assert scheduler.files["kubeconfig"] == "kubeconfig of the scheduler"
    assert configuration["clientConnection"] == {"kubeconfig": "kubeconfig"}
    assert configuration["leaderElection"]["resourceName"] == "kube-scheduling-scheduler"
    assert (first.url, scheduler.url) == ("http://127.0.0.1:5501/readyz", "https://127.0.0.1:10359/readyz")


def test_a_change_of_an_extender_changes_only_its_unit() -> None:
    before, after = (units_of(agent_args={"network_traffic": {"window": window}}) for window in ("5m", "6m"))
    assert before[SCHEDULER] == after[SCHEDULER] and before[FIRST].folder != after[FIRST].folder
    # The process has the hash of the unit in its environment.
    marks = [line for unit in (before[FIRST], after[FIRST]) for line in lines_of(unit, "Environment") if "KUBE_SCHEDULING_UNIT=" in line]
    assert len(set(marks)) == 2


@pytest.mark.skipif(SYSTEMD_ANALYZE is None, reason="systemd-analyze is not installed")
def test_systemd_finds_no_fault_in_the_units_and_their_exposure_is_low(tmp_path: Path) -> None:
    program = tmp_path / "opt" / "kube-scheduler-cccccccccccc"
    program.parent.mkdir()
    # systemd-analyze verify names a program that does not exist.
    program.touch(mode=0o755)
    for name, unit in units_of(str(program.parent), "/bin/sh").items():
        file = tmp_path / name
        file.write_text(unit.marked_text)
        verified = subprocess.run([str(SYSTEMD_ANALYZE), "verify", "--man=no", str(file)], capture_output=True, text=True)
        assert (verified.returncode, [line for line in verified.stderr.splitlines() if name in line]) == (0, []), verified.stderr
        command = [str(SYSTEMD_ANALYZE), "security", "--offline=yes", f"--threshold={MOST_EXPOSURE}", str(file)]
        answer = subprocess.run(command, capture_output=True, text=True)
        assert answer.returncode == 0, answer.stdout


def packed(folder: Path, name: str) -> tuple[str, str]:
    """Return the path of an archive with one file of this name, and its sum."""
    archive = folder / "kubernetes.tar.gz"
    with tarfile.open(archive, "w:gz") as opened:
        member = tarfile.TarInfo(f"kubernetes/server/bin/{name}")
        member.size, member.mode = 7, 0o755
        opened.addfile(member, io.BytesIO(b"program"))
    return str(archive), hashlib.sha256(archive.read_bytes()).hexdigest()


@pytest.fixture
def given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Callable[[str], Any]]:
    """A function that returns the variables of the role, some of them with other values."""
    monkeypatch.setenv("HOME", str(tmp_path))
    defaults = {
        "binary_path": "",
        "binary_archive": "",
        "binary_checksum": "",
        "wheelhouse": "",
        "pip_arguments": [],
        "__made": {"results": []},
        "__kubeadm_map": {},
        "__given_kubeconfigs": {"scheduler": "", "extender": ""},
        "__kubeconfig_users": {"scheduler": "kube-scheduling-scheduler", "extender": "kube-scheduling-extender"},
    }
    return lambda **variables: (defaults | variables).__getitem__


def test_the_given_program_or_that_of_the_archive_with_the_sum_is_taken(given: Callable[..., Any], tmp_path: Path) -> None:
    program = tmp_path / "own"
    program.write_bytes(b"program")
    expected = hashlib.sha256(b"program").hexdigest()
    assert kube_scheduler(given(binary_path=str(program))) == (str(program), expected, "")
    archive, checksum = packed(tmp_path, "kube-scheduler")
    file, found, problem = kube_scheduler(given(binary_archive=archive, binary_checksum=f"sha256:{checksum.upper()}"))
    assert (Path(file).read_bytes(), found, problem) == (b"program", expected, "")
    # The archive is not needed again.
    Path(archive).unlink()
    assert kube_scheduler(given(binary_archive=archive, binary_checksum=checksum))[0] == file


@pytest.mark.parametrize(
    ("name", "variables", "text"),
    [
        (
            "kube-scheduler",
            {"binary_path": "/nowhere"},
            "the controller has no file /nowhere, which extended_scheduler_binary_path names: copy",
        ),
        (
            "kube-scheduler",
            {"binary_checksum": "a" * 64},
            f"and extended_scheduler_binary_checksum is {'a' * 64}: copy the archive again, or",
        ),
        ("kubelet", {}, "has no file kube-scheduler: use kubernetes-server-linux-ARCHITECTURE.tar.gz of a release of Kubernetes"),
        ("kubelet", {"binary_archive": "/nowhere"}, "/nowhere, which extended_scheduler_binary_archive names, cannot be read ("),
        (
            "kubelet",
            {"binary_archive": f"http://{LOGIN}127.0.0.1:1/kubernetes.tar.gz"},
            "http://127.0.0.1:1/kubernetes.tar.gz, which extended_scheduler_binary_archive names, cannot be read (",
        ),
    ],
)
def test_why_there_is_no_program(given: Callable[..., Any], tmp_path: Path, name: str, variables: dict[str, Any], text: str) -> None:
    archive, checksum = packed(tmp_path, name)
    file, _sum, problem = kube_scheduler(given(**{"binary_archive": archive, "binary_checksum": checksum} | variables))
    assert file == "" and text in problem and "T0KEN" not in problem
    cache = tmp_path / ".cache"
    assert not [path for path in cache.rglob("*") if path.is_file() and path.name != "lock"]


def kubeconfig(name: str = "kube-scheduling-scheduler") -> str:
    return f"server: https://10.0.0.1:6443\nclient-certificate-data: {base64.b64encode(name.encode()).decode()}\n"


def test_kubeconfigs_of_kubeadm_are_read_and_an_expired_one_is_named(given: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    (problem,) = kubeconfigs(given())[1]
    assert problem.startswith("there is no ConfigMap kube-system/kubeadm-config, so kubeadm has not made the cluster: set extended_")
    monkeypatch.setattr(scheduler_units_host, "read_certificate", lambda text: Certificate("anyone", 1) if text else None)
    content = base64.b64encode(kubeconfig().encode()).decode()
    made = {"results": [{"item": "scheduler", "content": content}, {"item": "extender", "failed": True}]}
    texts, problems, missing = kubeconfigs(given(__made=made, __kubeadm_map={"data": {}}))
    assert (texts, problems) == ({"scheduler": kubeconfig(), "extender": ""}, [])
    assert [text.partition(":")[0] for text in missing] == ["the client certificate of the scheduler on the hosts has expired"]


@pytest.mark.parametrize(
    ("text", "certificate", "problem"),
    [
        (kubeconfig(), None, ""),
        (None, None, "the controller has no file PATH, which extended_scheduler_scheduler_kubeconfig names: copy"),
        ("    client-key: /etc/key.pem\n", None, "PATH names other files or a program, which the hosts do not have: write"),
        (
            kubeconfig(),
            Certificate("admin", 9_000_000_000),
            "PATH has a certificate of the user admin, and the rights are granted to",
        ),
        (kubeconfig(), Certificate("kube-scheduling-scheduler", 1), "PATH has a certificate that has expired: make a new"),
    ],
)
def test_given_kubeconfig_that_cannot_be_used_is_named(
    given: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    text: str | None,
    certificate: Certificate | None,
    problem: str,
) -> None:
    path, good = tmp_path / "kubeconfig", tmp_path / "good"
    good.write_text("token: a")
    if text is not None:
        path.write_text(text)
    monkeypatch.setattr(scheduler_units_host, "read_certificate", lambda text: certificate if "-data: " in text else None)
    _texts, problems, missing = kubeconfigs(given(__given_kubeconfigs={"scheduler": str(path), "extender": str(good)}))
    assert missing == [] and [one.replace(str(path), "PATH").startswith(problem) for one in problems] == ([True] if problem else []), (
        problems
    )


def test_the_extender_is_packed_readable_for_all_and_a_login_of_a_failed_download_is_not_shown(
    given: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = importlib.import_module(IMAGE_CONTEXT)

    def download(folder: Path, *, python: str, architecture: str, pip_arguments: list[str]) -> None:
        raise image.ContextError(
            f"no answer of https://{LOGIN}mirror.example.org with {python} {architecture}:\nset service_image_wheelhouse"
        )

    monkeypatch.setattr(image, "download", download)
    with pytest.raises(AnsibleActionFail) as error:
        extender_archive(given(), "host-1", "3.11", "x86_64")
    assert str(error.value) == (
        "host-1: the extender cannot be prepared for Python 3.11: no answer of https://mirror.example.org with 3.11 amd64: "
        "set extended_scheduler_wheelhouse. No unit was changed"
    )

    def assemble(folder: Path, *, wheelhouse: Path) -> None:
        (folder / "wheelhouse").mkdir(parents=True)
        (folder / "wheelhouse" / wheelhouse.name).write_text("wheel")
        (folder / "wheelhouse" / wheelhouse.name).chmod(0o600)

    monkeypatch.setattr(image, "assemble", assemble)
    archive = extender_archive(given(wheelhouse=str(tmp_path / "wheels")), "host-1", "3.11", "x86_64")
    with tarfile.open(archive) as opened:
        assert {member.name: oct(member.mode) for member in opened} == {
            ".": "0o755",
            "./wheelhouse": "0o755",
            "./wheelhouse/wheels": "0o644",
        }
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]
