# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""An image that the controller has as an archive, and a script in the place of a node's ``ctr``."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.hosts.containerd import name_on_node
from ansible_collections.onprem.kube_scheduling.plugins.plugin_utils.image_archive import publish
from ansible_collections.onprem.kube_scheduling.services.image_context import describe

DIGEST = f"sha256:{'1' * 64}"
PIN = "io.cri-containerd.pinned=pinned"


def saved_image(folder: Path) -> tuple[str, dict[str, str]]:
    """Return the name of the image, and the variables for its delivery. The script does not read the archive."""
    tag = describe(base="example.org/python", python="3.13", architecture="amd64")["tag"]
    with tarfile.open(folder / "image.tar", "w") as archive:
        index = json.dumps({"manifests": [{"digest": DIGEST}]}).encode()
        entry = tarfile.TarInfo("index.json")
        entry.size = len(index)
        archive.addfile(entry, io.BytesIO(index))
    publish(folder / "image.tar", folder / f"kube-scheduling-services-{tag}-amd64.oci.tar")
    variables = {
        "service_image_delivery": "archive",
        "service_image_reference": "",
        "service_image_base": "example.org/python",
        "service_image_python_version": "3.13",
        "service_image_archive_folder": str(folder),
        "service_image_containerd_socket": str(folder),
        "service_image_node_folder": str(folder),
    }
    return f"kube-scheduling.onprem/services:{tag}@{DIGEST}", variables


def containerd_client(
    folder: Path, name: str, *, reference: str = "example.org/services:1", labels: str | None = PIN, fails: bool = False
) -> list[str]:
    """Return the command for a node that has the image with these labels, or that has no image.

    It keeps an import and a label. With ``fails``, its list of images fails.
    """
    program, image, reference = folder / name, folder / f"{name}.labels", name_on_node(reference)
    if labels is not None:
        image.write_text(labels)
    listed = f"echo REF; [ ! -e {image} ] || echo '{reference} type sha256:0 1 MiB linux/amd64' \"$(cat {image})\""
    program.write_text(f"""#!/bin/sh
case "$*" in
  *version) printf 'Server:\\n  Version:  2.0.0\\n' ;;
  *"images check"*) [ ! -e {image} ] || echo '{reference} type sha256:0 complete (1/1) 1 MiB/1 MiB true' ;;
  *"images list"*) {"echo 'input/output error' >&2; exit 1" if fails else listed} ;;
  *"images import"*) echo - > {image} ;;
  *"images label"*) echo {PIN} > {image} ;;
  *"containers list"*) echo CONTAINER ;;
  *) exit 1 ;;
esac
""")
    program.chmod(0o755)
    return [str(program)]
