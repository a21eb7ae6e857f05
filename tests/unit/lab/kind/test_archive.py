# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""An archive of images is complete and reproducible."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path

import pytest

from lab.kind.archive import Image, write


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "program").write_text("#!/bin/sh\n")
    (folder / "bin" / "program").chmod(0o755)
    (folder / "bin" / "link").symlink_to("program")
    return folder


def test_the_manifest_names_reference_configuration_and_layer(tmp_path: Path, root: Path) -> None:
    write(tmp_path / "images.tar", [Image("example.org/one:1", root, ["/bin/program"])])
    with tarfile.open(tmp_path / "images.tar") as archive:
        content = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        data = {name: stream.read() for name, stream in content.items() if stream is not None}
    (image,) = json.loads(data["manifest.json"])
    assert image["RepoTags"] == ["example.org/one:1"]
    config = json.loads(data[image["Config"]])
    assert config["config"]["Entrypoint"] == ["/bin/program"]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(data[image['Layers'][0]]).hexdigest()}"]


def test_a_layer_keeps_links_and_modes(tmp_path: Path, root: Path) -> None:
    write(tmp_path / "images.tar", [Image("example.org/one:1", root, ["/bin/program"])])
    with tarfile.open(tmp_path / "images.tar") as archive:
        name = next(member.name for member in archive.getmembers() if member.name.endswith("layer.tar"))
        with tarfile.open(fileobj=archive.extractfile(name)) as layer:
            assert layer.getmember("./bin/link").linkname == "program"
            assert layer.getmember("./bin/program").mode == 0o755


def test_the_same_files_give_the_same_archive(tmp_path: Path, root: Path) -> None:
    archives = []
    for name in ("one", "two"):
        write(tmp_path / name, [Image("example.org/one:1", root, ["/bin/program"])])
        archives.append((tmp_path / name).read_bytes())
        (root / "bin" / "program").touch()
    assert archives[0] == archives[1]


def test_an_interrupted_write_leaves_no_archive(tmp_path: Path, root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write(tmp_path / "images.tar", [Image("example.org/one:1", root, []), Image("example.org/two:1", tmp_path / "missing", [])])
    assert [path.name for path in tmp_path.iterdir()] == ["root"]
