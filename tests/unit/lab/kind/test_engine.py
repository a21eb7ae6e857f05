# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An engine that answers is used. Without one and without a permission, the error names the remedies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.kind import dockerd, engine, packages
from lab.kind.cluster import KindCluster
from lab.progress import silent

NO_DAEMON = """#!/bin/sh
echo "Server:"
echo "Cannot connect to the Docker daemon at unix:///nowhere. Is the docker daemon running?" >&2
exit 0
"""


@pytest.fixture
def on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Puts a program into the only folder of PATH besides the shell's."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv(packages.PERMISSION, raising=False)

    def put(name: str, text: str) -> None:
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)

    return put


@pytest.fixture(autouse=True)
def _nothing_is_installed_or_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "run", lambda *_, **__: pytest.fail("a package would be installed"))
    monkeypatch.setattr(dockerd, "start", lambda *_: pytest.fail("dockerd would be started"))


def test_an_engine_that_answers_is_used_as_it_is(on_path: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    on_path("docker", "#!/bin/sh\nexit 0\n")
    monkeypatch.setenv(packages.PERMISSION, "1")
    assert engine.ensure(pytest.fail) is False


@pytest.mark.usefixtures("on_path")
def test_without_docker_the_error_names_the_remedies() -> None:
    with pytest.raises(LabError, match=r"the program docker is missing.*python -m lab kind engine up.*KUBE_SCHEDULING_REQUIRE_ENGINE=1"):
        engine.ensure(silent)


def test_a_client_without_a_daemon_is_no_engine(on_path: Callable[[str, str], None]) -> None:
    on_path("docker", NO_DAEMON)
    with pytest.raises(LabError, match="container engine: Cannot connect to the Docker daemon at unix:///nowhere"):
        engine.ensure(silent)


def test_a_cluster_is_not_begun_without_an_engine(on_path: Callable[[str, str], None], tmp_path: Path) -> None:
    on_path("docker", NO_DAEMON)
    for action in (KindCluster.at(tmp_path / "c", "c").up, KindCluster.at(tmp_path / "c", "c").down):
        with pytest.raises(LabError, match="Cannot connect"):
            action(silent)
    assert not (tmp_path / "c").exists()


def test_missing_packages_are_named_and_not_installed_without_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "PATHS", "/nowhere")
    with pytest.raises(LabError, match=r"packages containerd, debootstrap: .* because KUBE_SCHEDULING_REQUIRE_ENGINE is not 1\."):
        packages.ensure(packages.BUILD_PROGRAMS, silent, install=False)


def test_only_root_can_install_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)
    assert packages.obstacle(install=True) == "only root can install packages"


def test_the_wrapper_of_runc_is_used_only_without_the_capability(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dockerd, "RUN", tmp_path)
    monkeypatch.setattr(dockerd, "STATUS", tmp_path / "status")
    for mask, runtimes in (("000001ffffffffff", []), ("000001fffeffffff", [f"--add-runtime=lab={tmp_path}/runc-wrapper"])):
        (tmp_path / "status").write_text(f"Name:\tpython\nCapEff:\t{mask}\n")
        assert [flag for flag in dockerd.command() if flag.startswith("--add-runtime")] == runtimes
    assert (tmp_path / "runc-wrapper").stat().st_mode & 0o111


def test_a_process_that_is_not_the_labs_dockerd_is_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dockerd, "RUN", tmp_path)
    (tmp_path / "pid").write_text("1")
    assert dockerd.stop() is False
