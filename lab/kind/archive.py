# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Container images made without an engine: an archive as `docker save` writes it, from folders of files.

The same files give the same archive, so that the identifier of an image changes only with its content.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"
CHUNK_BYTES = 1 << 20
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Image:
    """An image of one layer. `root`: the folder that becomes its root file system."""

    reference: str
    root: Path
    entrypoint: Sequence[str]


def write(path: Path, images: Sequence[Image]) -> None:
    """Write the archive. The file appears only when it is complete."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with tarfile.open(unfinished, "w") as archive:
            entries = [_add(archive, image) for image in images]
            _add_bytes(archive, MANIFEST, json.dumps(entries).encode())
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def architecture() -> str:
    """The name that container images use for this machine's architecture."""
    machine = platform.machine()
    return ARCHITECTURES.get(machine, machine)


def _add(archive: tarfile.TarFile, image: Image) -> dict[str, Any]:
    with tempfile.TemporaryFile(dir=image.root.parent) as stream:
        with tarfile.open(fileobj=stream, mode="w") as layer:
            layer.add(image.root, arcname=".", filter=reproducible)
        size_bytes = stream.tell()
        stream.seek(0)
        digest = hashlib.sha256()
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
        stream.seek(0)
        layer_name = f"{digest.hexdigest()}/layer.tar"
        entry = tarfile.TarInfo(layer_name)
        entry.size = size_bytes
        archive.addfile(entry, stream)
    config = _config(image, f"sha256:{digest.hexdigest()}")
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    _add_bytes(archive, config_name, config)
    return {"Config": config_name, "RepoTags": [image.reference], "Layers": [layer_name]}


def _config(image: Image, layer: str) -> bytes:
    config = {
        "architecture": architecture(),
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {"Entrypoint": list(image.entrypoint), "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [layer]},
    }
    return json.dumps(config, sort_keys=True).encode()


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def reproducible(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out what differs between two builds of the same files."""
    entry.mtime = 0
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
