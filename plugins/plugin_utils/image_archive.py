# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The archive of the image on the controller: an OCI image layout, whose digest is known before a node imports it.

Engines save images in a form without a digest (docker's archive). containerd would make a manifest of its own of it. Two builds of the same
content on the same base have the same digest, because the times and what describes the build are left out.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import tarfile
import tempfile

from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.file_sum import sum_of

TYPE = "application/vnd.oci.image"
TIMES = ("mtime", "atime", "ctime")
KEPT = ("User", "Env", "Entrypoint", "Cmd", "WorkingDir", "Labels", "ExposedPorts", "Volumes", "StopSignal")
"""The fields of the configuration that a container needs (OCI image specification)."""


def write_archive(saved, to, name):
    """Write the image of docker's archive ``saved`` as an OCI image layout, which docker and podman can load, too, under ``name``.

    containerd names it by its digest.
    """
    with tarfile.open(saved) as given, tarfile.open(to, "w") as made:
        (image,) = json.load(given.extractfile("manifest.json"))
        described = json.load(given.extractfile(image["Config"]))
        layers = [_add_layer(given, path, made, to.parent) for path in image["Layers"]]
        config = {name: described[name] for name in ("architecture", "os", "variant") if name in described}
        config["created"] = "1970-01-01T00:00:00Z"
        config["config"] = {name: described["config"][name] for name in KEPT if described["config"].get(name)}
        config["rootfs"] = {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]}
        described_by = _add_text(made, f"{TYPE}.config.v1+json", config)
        kind = {"schemaVersion": 2, "mediaType": f"{TYPE}.manifest.v1+json"}
        manifest = _add_text(made, kind["mediaType"], kind | {"config": described_by, "layers": layers})
        manifest["annotations"] = {"io.containerd.image.name": f"{name.rpartition(':')[0]}@{manifest['digest']}"}
        files = {
            "index.json": {"schemaVersion": 2, "mediaType": f"{TYPE}.index.v1+json", "manifests": [manifest]},
            "oci-layout": {"imageLayoutVersion": "1.0.0"},
            "manifest.json": [{"Config": _place(described_by), "RepoTags": [name], "Layers": [_place(layer) for layer in layers]}],
        }
        for file, value in files.items():
            _add(made, file, io.BytesIO(json.dumps(value).encode()))


def digest_of(archive):
    """Return the digest of the image in an archive, such as ``sha256:9f1d…``. Raises OSError if it is damaged."""
    try:
        with tarfile.open(archive) as content:
            return json.load(content.extractfile("index.json"))["manifests"][0]["digest"]
    except (tarfile.TarError, KeyError, IndexError, ValueError) as error:
        remedy = "copy it again from the machine that has built it, or delete it so that the image is built again"
        raise OSError(f"{archive} on the controller is damaged: {remedy}") from error


def publish(archive, to):
    """Give a complete archive its name, with a file that has its SHA-256 sum. If another run has done that, its archive stays.

    Both files are in the same file system.
    """
    folder = os.open(to.parent, os.O_RDONLY)
    try:
        # Two builds of the same content have different sums, so that the two names must not be mixed.
        fcntl.flock(folder, fcntl.LOCK_EX)
        if not to.exists():
            sums = archive.with_name(f"{to.name}.sha256")
            sums.write_text(f"{sum_of(archive)}  {to.name}\n", encoding="utf-8")
            sums.replace(to.with_name(sums.name))
            archive.replace(to)
    finally:
        os.close(folder)


def _add_layer(given, path, made, folder):
    """Add a layer without its times, and return its description. Engines compress layers or do not."""
    with tempfile.TemporaryFile(dir=folder) as content:
        with tarfile.open(fileobj=given.extractfile(path)) as layer, tarfile.open(fileobj=content, mode="w") as written:
            for entry in layer:
                entry.mtime = 0
                entry.pax_headers = {name: value for name, value in entry.pax_headers.items() if name not in TIMES}
                written.addfile(entry, layer.extractfile(entry) if entry.isreg() else None)
        return _add_blob(made, f"{TYPE}.layer.v1.tar", content)


def _add_text(made, kind, value):
    return _add_blob(made, kind, io.BytesIO(json.dumps(value).encode()))


def _add_blob(made, kind, content):
    """Add a content under its digest, and return its description."""
    content.seek(0)
    digest = hashlib.file_digest(content, "sha256").hexdigest()
    described = {"mediaType": kind, "digest": f"sha256:{digest}", "size": content.seek(0, os.SEEK_END)}
    _add(made, _place(described), content)
    return described


def _place(blob):
    return f"blobs/{blob['digest'].replace(':', '/')}"


def _add(made, name, content):
    entry = tarfile.TarInfo(name)
    entry.size = content.seek(0, os.SEEK_END)
    content.seek(0)
    made.addfile(entry, content)
