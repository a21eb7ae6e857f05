# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The archive of the image on the controller. tests/image imports one into a real containerd."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import tarfile
import threading
from pathlib import Path

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.file_sum import sum_of
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.image_archive import digest_of, publish, write_archive

PLACE = "example.org/services"
CONFIG = {"os": "linux", "created": "2026", "container": "ab", "config": {"Image": "sha256:1", "User": "65532", "Env": None}}


def packed(time_s: int, *, mode: str = "w:") -> bytes:
    """Return a layer with a file, a link to it and an extended attribute."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=mode) as layer:  # type: ignore[call-overload]
        entry = tarfile.TarInfo("program")
        entry.size, entry.mode, entry.mtime = 4, 0o755, time_s
        entry.pax_headers = {"SCHILY.xattr.user.kind": "x", "atime": str(time_s)}
        layer.addfile(entry, io.BytesIO(b"text"))
        link = tarfile.TarInfo("link")
        link.type, link.linkname, link.mtime = tarfile.LNKTYPE, "program", time_s
        layer.addfile(link)
    return content.getvalue()


def saved(folder: Path, time_s: int, *, mode: str = "w:") -> Path:
    """Return what docker saves."""
    parts = {"config.json": json.dumps(CONFIG | {"created": time_s}).encode(), "one/layer.tar": packed(time_s, mode=mode)}
    parts["manifest.json"] = json.dumps([{"Config": "config.json", "RepoTags": ["x:1"], "Layers": ["one/layer.tar"]}]).encode()
    file = folder / f"saved-{time_s}.tar"
    with tarfile.open(file, "w") as archive:
        for name, content in parts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return file


def test_every_content_is_named_by_its_digest_and_the_image_by_that_of_its_manifest(tmp_path: Path) -> None:
    write_archive(saved(tmp_path, 1), tmp_path / "image.tar", f"{PLACE}:1")
    with tarfile.open(tmp_path / "image.tar") as archive:
        found = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]
    blobs = {f"sha256:{name.rpartition('/')[2]}": content for name, content in found.items() if name.startswith("blobs/")}
    assert all(f"sha256:{hashlib.sha256(content).hexdigest()}" == digest for digest, content in blobs.items())
    digest = digest_of(tmp_path / "image.tar")
    (entry,) = json.loads(found["index.json"])["manifests"]
    assert entry["digest"] == digest and entry["annotations"] == {"io.containerd.image.name": f"{PLACE}@{digest}"}
    manifest = json.loads(blobs[digest])
    (layer,) = manifest["layers"]
    config = json.loads(blobs[manifest["config"]["digest"]])
    assert config["rootfs"]["diff_ids"] == [layer["digest"]] and config["config"] == {"User": "65532"}
    assert all(blob["size"] == len(blobs[blob["digest"]]) for blob in (entry, manifest["config"], layer))
    with tarfile.open(fileobj=io.BytesIO(blobs[layer["digest"]])) as unpacked:
        program, link = unpacked.getmembers()
        assert (program.mode, program.mtime, program.pax_headers) == (0o755, 0, {"SCHILY.xattr.user.kind": "x"})
        assert unpacked.extractfile(program).read() == b"text" and link.linkname == "program"  # type: ignore[union-attr]


def test_two_builds_of_the_same_content_have_the_same_digest(tmp_path: Path) -> None:
    digests = set()
    for time_s, mode in ((1, "w:"), (2, "w:"), (3, "w:gz")):
        write_archive(saved(tmp_path, time_s, mode=mode), tmp_path / "image.tar", f"{PLACE}:1")
        digests.add(digest_of(tmp_path / "image.tar"))
    assert len(digests) == 1


def test_of_two_archives_with_one_name_the_first_stays_with_its_sum(tmp_path: Path) -> None:
    folder, to = tmp_path / "archives", tmp_path / "archives" / "services.tar"
    folder.mkdir()
    for content in (b"first", b"second"):
        (tmp_path / "image.tar").write_bytes(content)
        publish(tmp_path / "image.tar", to)
    assert to.read_bytes() == b"first" and {file.name for file in folder.iterdir()} == {"services.tar", "services.tar.sha256"}
    assert (folder / "services.tar.sha256").read_text() == f"{hashlib.sha256(b'first').hexdigest()}  services.tar\n"


def test_an_archive_waits_for_another_run_that_gives_the_same_name(tmp_path: Path) -> None:
    (tmp_path / "image.tar").write_bytes(b"second")
    to = tmp_path / "services.tar"
    other = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    waiting = threading.Thread(target=publish, args=(tmp_path / "image.tar", to))
    waiting.start()
    waiting.join(0.5)
    assert waiting.is_alive()
    to.write_bytes(b"first")
    os.close(other)
    waiting.join(30)
    assert to.read_bytes() == b"first" and sum_of(to) == hashlib.sha256(b"first").hexdigest()


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_a_file_that_is_no_archive_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "image.tar").write_bytes(content)
    with pytest.raises(OSError, match="is damaged: copy it again"):
        digest_of(tmp_path / "image.tar")
