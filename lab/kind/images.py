# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The images of the control plane, under the names that kubeadm expects: each has one static program."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from lab.binaries import KUBERNETES_VERSION
from lab.errors import LabError
from lab.kind.archive import Image, write
from lab.kind.commands import answer
from lab.kind.programs import Programs

BIN = Path("usr/local/bin")
BUSYBOX = "kube-scheduling.onprem/busybox:1"
"""An image with a shell and nslookup, which the nodes have."""
KUBE_PROXY_PROGRAMS = ("usr/sbin/xtables-nft-multi", "usr/sbin/nft")
IPTABLES_NAMES = tuple(f"{program}{suffix}" for program in ("iptables", "ip6tables") for suffix in ("", "-save", "-restore"))
LIBRARY = re.compile(r"(/\S+\.so\S*)")


def names(programs: Programs) -> dict[str, str]:
    """Return the references of the images that kubeadm expects, by the last part of their names."""
    kubeadm = programs.node / "kubeadm"
    listed = answer([str(kubeadm), "config", "images", "list", "--kubernetes-version", f"v{KUBERNETES_VERSION}"]).split()
    return {reference.rpartition(":")[0].rpartition("/")[2]: reference for reference in listed}


def build(path: Path, programs: Programs, root: Path, scratch: Path, log: Callable[[str], None]) -> None:
    """Write all images into the archive `path`. `root`: the root file system of a node. `scratch`: an empty folder."""
    log("images of the control plane: writing the archive")
    references = names(programs)
    sources = {name: programs.cluster / name for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd")}
    sources |= {"coredns": programs.coredns / "coredns", "pause": programs.pause / "pause"}
    lacking = sorted({*sources, "kube-proxy"} - set(references))
    if lacking:
        raise LabError(f"kubeadm {KUBERNETES_VERSION} names no image for {', '.join(lacking)}: adapt lab/kind/images.py to this version")
    images = [_static(references[name], source, scratch) for name, source in sources.items()]
    images.append(_kube_proxy(references["kube-proxy"], programs.node / "kube-proxy", root, scratch))
    images.append(_busybox(root, scratch))
    write(path, images)


def _static(reference: str, program: Path, scratch: Path) -> Image:
    folder = scratch / program.name
    (folder / BIN).mkdir(parents=True)
    shutil.copy2(program, folder / BIN)
    return Image(reference, folder, [f"/{BIN / program.name}"])


def _busybox(root: Path, scratch: Path) -> Image:
    folder = scratch / "busybox"
    (folder / "bin").mkdir(parents=True)
    shutil.copy2(root / "usr/bin/busybox", folder / "bin/busybox")
    for name in answer([str(root / "usr/bin/busybox"), "--list"]).split():
        if name != "busybox":
            (folder / "bin" / name).symlink_to("busybox")
    return Image(BUSYBOX, folder, ["/bin/busybox"])


def _kube_proxy(reference: str, program: Path, root: Path, scratch: Path) -> Image:
    """kube-proxy calls iptables and nft: those of the node, with the libraries that they load."""
    image = _static(reference, program, scratch)
    folder = image.root
    for name in ("usr/sbin", "usr/lib", "usr/lib64", "run", "etc"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("sbin", "lib", "lib64"):
        (folder / name).symlink_to(f"usr/{name}")
    for name in KUBE_PROXY_PROGRAMS:
        shutil.copy2(root / name, folder / name)
    for name in IPTABLES_NAMES:
        (folder / "usr/sbin" / name).symlink_to("xtables-nft-multi")
    extensions = next((root / "usr/lib").glob("*/xtables")).relative_to(root)
    shutil.copytree(root / extensions, folder / extensions, symlinks=True)
    callers = [*(root / name for name in KUBE_PROXY_PROGRAMS), *(root / extensions).glob("*.so")]
    for name in _libraries(root, [f"/{path.relative_to(root)}" for path in callers]):
        target = folder / name.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2((root / name.lstrip("/")).resolve(), target)
    for command in (["/usr/sbin/iptables", "-V"], ["/usr/sbin/nft", "-v"]):
        answer(["chroot", str(folder), *command])
    return image


def _libraries(root: Path, files: Iterable[str]) -> list[str]:
    """Return the shared libraries that these files of the root file system load."""
    # An extension that is a script or a static file gives an exit code, and still the libraries of the others.
    listed = subprocess.run(["chroot", str(root), "ldd", *files], capture_output=True, text=True, check=False).stdout
    lines = [line for line in listed.splitlines() if line.startswith((" ", "\t"))]
    found = {match[1] for line in lines if (match := LIBRARY.search(line.rpartition("=>")[2]))}
    return sorted(found)
