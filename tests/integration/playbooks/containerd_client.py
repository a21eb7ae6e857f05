# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A script in the place of a node's ``ctr``."""

from __future__ import annotations

from pathlib import Path

PIN = "io.cri-containerd.pinned=pinned"


def containerd_client(
    folder: Path, name: str, *, reference: str = "example.org/services:1", labels: str | None = PIN, fails: bool = False
) -> list[str]:
    """Return the command for a node that has the image with these labels, or that has no image.

    It keeps an import and a label. With ``fails``, its list of images fails.
    """
    program, image = folder / name, folder / f"{name}.labels"
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
