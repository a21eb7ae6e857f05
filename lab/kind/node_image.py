# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node image of kind: Debian's root file system, kind's own files, the kubelet with kubeadm, and the images of the control plane."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from lab.binaries import CLUSTER, KUBERNETES_VERSION
from lab.errors import LabError
from lab.kind import images, packages, preload, programs, root_file_system
from lab.kind.commands import answer, run
from lab.layout import SOURCES, cache_dir
from lab.locks import locked
from lab.progress import run_with_heartbeat

REPOSITORY = "kube-scheduling.onprem/kind-node"
"""The name of the home-built node images. `lab.kind.cluster` knows by it that they have no CNI plugin of kind's."""
DEFAULTS = "pkg/apis/config/defaults/image.go"
"""The file of kind's sources that names its own node image."""
KINDS_OWN = re.compile(r'const Image = "([^"]+)"')
KEPT_IMAGES = 3
"""Each has 1 GB."""
# Units that make no sense in a container. kind's own image lacks them, too.
UNNEEDED_UNITS = (
    "lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service",
    "lib/systemd/system/multi-user.target.wants/*",
    "etc/systemd/system/*.wants/*",
    "lib/systemd/system/local-fs.target.wants/*",
    "lib/systemd/system/sockets.target.wants/*initctl*",
    "lib/systemd/system/sockets.target.wants/*udev*",
    "lib/systemd/system/containerd.service",
)
FOLDERS = ("etc/kubernetes/manifests", "kind/manifests", "etc/cni/net.d", "opt/cni")
LINKS = {
    "usr/local/bin/containerd": "/usr/bin/containerd",
    "usr/local/bin/ctr": "/usr/bin/ctr",
    "opt/cni/bin": "/usr/lib/cni",
}
# kind requires a default StorageClass. This one has no provisioner.
STORAGE_CLASS = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: standard}\nprovisioner: kubernetes.io/no-provisioner\n"


def key() -> str:
    """Short hash over everything that decides what the image is."""
    modules = (CLUSTER, programs.NODE, programs.KIND, programs.COREDNS, programs.PAUSE)
    parts = [root_file_system.key(), *(module.cache_key() for module in modules)]
    sources = ("archive", "images", "node_image", "preload")
    parts += [(SOURCES / "kind" / f"{name}.py").read_text() for name in sources]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def reference() -> str:
    return f"{REPOSITORY}:v{KUBERNETES_VERSION}-{key()}"


def ensure(log: Callable[[str], None], *, install: bool | None = None) -> str:
    """Return the reference of the node image, which the engine has. It is built if needed, which needs root.

    `install`: whether Debian packages may be installed for that (default: as the environment says).
    """
    image = reference()
    if not _has(image):
        with locked(cache_dir() / "kind-node.lock", why="which builds the node image", log=log):
            if not _has(image):
                _build(image, log, install=packages.permitted() if install is None else install)
    return image


def choose(log: Callable[[str], None]) -> str:
    """Return the node image where none is named: kind's own if the engine has it or can pull it, or else the one that is built here."""
    found = KINDS_OWN.search((programs.kind_sources(log) / DEFAULTS).read_text())
    if found is None:
        raise LabError(f"kind {programs.KIND_VERSION}: {DEFAULTS} names no node image. Set KUBE_SCHEDULING_KIND_IMAGE to one.")
    image = found[1]
    if _has(image):
        return image
    pulled = run_with_heartbeat(["docker", "pull", "--quiet", image], what=f"docker pull {image}", log=log)
    if pulled.code == 0:
        return image
    log(f"{image} cannot be pulled, so that a node image is built here: {pulled.tail(1)}")
    return ensure(log)


def _has(image: str) -> bool:
    return bool(answer(["docker", "images", "--quiet", image]).strip())


def _build(image: str, log: Callable[[str], None], *, install: bool) -> None:
    if os.geteuid() != 0:
        raise LabError(f"node image {image}: only root can build it. Run it as root, or set KUBE_SCHEDULING_KIND_IMAGE to another image.")
    packages.ensure(packages.BUILD_PROGRAMS, log, install=install)
    built = programs.ensure(log)
    files = programs.kind_sources(log) / "images" / "base" / "files"
    root = root_file_system.ensure(log, install=install)
    for path in cache_dir().glob(".kind-node-*"):
        shutil.rmtree(path, ignore_errors=True)  # of a killed run: the caller has the lock
    scratch = Path(tempfile.mkdtemp(prefix=".kind-node-", dir=cache_dir()))
    try:
        (scratch / "images").mkdir()
        archive = scratch / "images.tar"
        images.build(archive, built, root, scratch / "images", log)
        log(f"node image {image}: building")
        node = scratch / "node"
        _assemble(node, root, files, built, images.names(built)["pause"])
        preload.import_archive(node / "var/lib/containerd", archive, scratch / "containerd")
        _import(node, image)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    _remove_old()
    log(f"node image {image}: done")


def _remove_old() -> None:
    """Remove all but the newest images. Other checkouts of this repository may use the newest ones. One that runs is not removed."""
    listed = answer(["docker", "images", "--format", "{{.Repository}}:{{.Tag}}", REPOSITORY]).split()
    for old in listed[KEPT_IMAGES:]:
        subprocess.run(["docker", "rmi", old], capture_output=True, check=False)


def _assemble(node: Path, root: Path, files: Path, built: programs.Programs, pause: str) -> None:
    """Make the folder that becomes the image."""
    run(["cp", "--archive", str(root), str(node)], what="copy of the root file system")
    for name in ("etc", "kind", "usr"):
        run(["cp", "--recursive", "--no-preserve=mode,ownership", str(files / name), str(node)], what="copy of kind's files")
    for folder in ("usr/local/bin", "kind/bin"):
        for path in (node / folder).iterdir():
            path.chmod(0o755)
    for pattern in UNNEEDED_UNITS:
        for path in node.glob(pattern):
            path.unlink()
    for program in (built.node / "kubelet", built.node / "kubeadm", built.cluster / "kubectl"):
        shutil.copy(program, node / "usr/bin")
    for name in FOLDERS:
        (node / name).mkdir(parents=True, exist_ok=True)
    for link, target in LINKS.items():
        (node / link).symlink_to(target)
    answer(["chroot", str(node), "systemctl", "enable", "--quiet", "kubelet", "containerd", "undo-mount-hacks"])
    answer(["chroot", str(node), "systemctl", "mask", "--quiet", "systemd-binfmt"])
    (node / "kind/version").write_text(f"v{KUBERNETES_VERSION}")
    (node / "kind/manifests/default-storage.yaml").write_text(STORAGE_CLASS)
    with (node / "etc/systemd/journald.conf").open("a") as journald:
        journald.write("ReadKMsg=no\n")
    config = node / "etc/containerd/config.toml"
    config.write_text(containerd_config(config.read_text(), pause))


def containerd_config(text: str, pause: str) -> str:
    """Return kind's configuration of containerd for Debian's containerd, and for a machine without CAP_SYS_RESOURCE."""
    text = text.replace("restrict_oom_score_adj = false", "restrict_oom_score_adj = true")
    text = re.sub(r"^( *sandbox_image =).*$", rf'\1 "{pause}"', text, flags=re.MULTILINE)
    text = re.sub(r"^.*base_runtime_spec.*\n", "", text, flags=re.MULTILINE)
    # Up to the next empty line, or to the end.
    return re.sub(r"^\[proxy_plugins(?:.+\n?)*", "", text, flags=re.MULTILINE)


def _import(node: Path, image: str) -> None:
    """Give the folder to the engine as an image of one layer."""
    entrypoint = 'ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]'
    with subprocess.Popen(["tar", "-C", str(node), "-c", "."], stdout=subprocess.PIPE) as tar:
        command = ["docker", "import", "-c", entrypoint, "-c", "ENV container=docker", "-", image]
        result = subprocess.run(command, stdin=tar.stdout, capture_output=True, text=True, check=False)
    if result.returncode != 0 or tar.returncode != 0:
        raise LabError(f"docker import of {image} failed: {result.stderr.strip()}: check the free disk space of the engine")
