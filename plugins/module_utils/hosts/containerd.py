# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The image of the services in the containerd of a node: checks, import, pin and removal, by its client ``ctr``."""

from __future__ import annotations

import contextlib
import platform
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .common.system import ARCHITECTURES, HostError, Run, run_checked

REPOSITORY = "kube-scheduling.onprem/services"
OTHER_DELIVERIES = (
    "deliver the image in another way: service_image_delivery: registry pushes it to a registry or refers to one there, and "
    "service_image_delivery: preloaded refers to an image that the nodes already have"
)
OTHER_RUNTIMES = {"/run/crio/crio.sock": "CRI-O", "/run/cri-dockerd.sock": "cri-dockerd"}
"""The sockets of other runtimes that the kubelet may use."""
PIN = "io.cri-containerd.pinned=pinned"
"""With this label the kubelet does not delete an image that no pod runs, such as the image of a CronJob."""
PIN_VERSION = (1, 7, 3)
"""containerd has the label since 1.7.3 and 1.6.22 (containerd#8718, containerd#8720)."""
LABEL_VERSION = (1, 7, 10)
"""containerd notices a label that was added after the import since 1.7.10 and 1.6.25 (containerd#9381, containerd#9382)."""
ABANDONED_S = 86400


class Image(NamedTuple):
    """An image of containerd."""

    name: str
    digest: str
    labels: str


@dataclass(frozen=True)
class Containerd:
    """The containerd of a node. ``ctr`` is the command of its client."""

    node: str
    ctr: Sequence[str]
    socket: str
    run: Run

    def call(self, *words: str) -> tuple[int, str, str]:
        """Run the client for the images of Kubernetes."""
        return self.run([*self.ctr, "--address", self.socket, "--namespace", "k8s.io", *words])

    def change(self, *words: str) -> str:
        """Run the client, which must succeed. Raises HostError."""
        return run_checked(lambda found: self.call(*found), f"{' '.join(self.ctr)} {' '.join(words[:2])}", words)

    def problems(self, architecture: str, built_for: str) -> list[str]:
        """Return why the node cannot use the archive."""
        for socket, runtime in OTHER_RUNTIMES.items():
            if Path(socket).exists():
                return [
                    f"{self.node} runs {runtime} ({socket} exists), and service_image_delivery: archive imports images only into "
                    "containerd. Set service_image_delivery: registry, and service_image_registry to a registry that the nodes reach"
                ]
        if not Path(self.socket).exists():
            return [
                f"{self.node} has no socket {self.socket}: start containerd, or set service_image_containerd_socket (k3s: "
                f"/run/k3s/containerd/containerd.sock, with service_image_ctr: [k3s, ctr]), or {OTHER_DELIVERIES}"
            ]
        found = ARCHITECTURES.get(platform.machine(), platform.machine())
        if {architecture, found} != {built_for}:
            own = "" if architecture == built_for else f" and has service_image_architecture {architecture}"
            return [
                f"{self.node} is {found}{own}, and the image is built for {built_for}. All pods refer to one image, and an archive has one "
                "architecture: set service_image_delivery: registry, and service_image_reference to an image for all architectures of "
                "the nodes. Or deliver it only to nodes of one architecture, with the same service_image_architecture for all hosts, "
                "and choose them for the pods with spread_cronjob_node_selector and critical_rescuer_node_selector"
            ]
        code, _output, error = self.call("version")
        if code != 0:
            return [
                f"{self.node}: {' '.join(self.ctr)} version failed: {' '.join(error.split())}. It needs root (become: true), the program "
                f"{self.ctr[0]} on the PATH, and a running containerd"
            ]
        return []

    def images(self) -> list[Image]:
        """Return the images of the node."""
        # REF TYPE DIGEST SIZE PLATFORMS LABELS; the size has a blank in it.
        rows = [line.split() for line in self.change("images", "list").splitlines()[1:]]
        return [Image(row[0], row[2], row[-1]) for row in rows]

    def is_whole(self, name: str) -> bool:
        """Return whether the whole content of an image is there and unpacked."""
        # An image of an interrupted import may fail here.
        code, output, _error = self.call("images", "check", f"name=={name}")
        return code == 0 and bool(re.search(r" complete .* true\s*$", output))

    def missing(self, reference: str) -> list[str]:
        """Return what is missing of an image that must be there and pinned."""
        name, advice = name_on_node(reference), "run the playbook onprem.kube_scheduling.site"
        try:
            labels = [image.labels for image in self.images() if image.name == name]
        except HostError as error:
            return [f"{self.node}: {self.ctr[0]} cannot read the images: {error}. It needs root (become: true)"]
        if not labels or not self.is_whole(name):
            return [f"{self.node} does not have the image {reference}: {advice}"]
        unpinned = f"{self.node} has the image {reference}, which is not pinned, so the kubelet may delete it: {advice}"
        return [] if PIN in labels[0] else [unpinned]

    def remove_old(self, kept: str, *, dry: bool) -> bool:
        """Remove the images of this role but one, and but those that containers use. If none is kept, all.

        Return whether there are some.
        """
        names = self.removable(kept)
        if names and not dry:
            self.change("images", "remove", *names)
        return bool(names)

    def removable(self, kept: str) -> list[str]:
        """Return the names of the images that ``remove_old`` removes."""
        images = self.images()
        candidates = [image for image in images if re.match(f"{re.escape(REPOSITORY)}[:@]", image.name) and image.name != kept]
        if not candidates:
            return []
        running = {line.split()[1] for line in self.change("containers", "list").splitlines()[1:]}
        used = {image.digest for image in images if kept and image.name in running}
        old = [image for image in candidates if image.digest not in used]
        names, digests = {image.name for image in old}, {image.digest for image in old}
        # The CRI plugin of containerd names each image also by its ID. Without these names its content would stay on the disk.
        others = {image.digest for image in images if image.name not in names and not image.name.startswith("sha256:")}
        ids = [image.name for image in images if image.name.startswith("sha256:") and image.digest in digests - others]
        return [image.name for image in old] + ids

    def warnings(self, *, pins: bool) -> list[str]:
        """Return what the version of containerd means for the pin."""
        found = re.search(r"Server:\s+Version:\s+v?(\d+)\.(\d+)\.(\d+)", self.call("version")[1])
        version = tuple(map(int, found.groups())) if found else (0,)
        shown, pinning, wanted = (".".join(map(str, one)) for one in (version, PIN_VERSION, LABEL_VERSION))
        if version < PIN_VERSION:
            return [
                f"{self.node} has containerd {shown}, and a version before {pinning} may not tell the kubelet "
                "that the image is pinned: with a full disk the kubelet then deletes the image while no pod runs it, and a CronJob fails "
                f"until the next run of this role. Update containerd to {wanted} or later, or use service_image_delivery: registry"
            ]
        if pins and version < LABEL_VERSION:
            return [
                f"{self.node} has containerd {shown}, which notices that the image is pinned only when containerd starts again: restart "
                f"containerd, or update it to {wanted} or later"
            ]
        return []


def name_on_node(reference: str) -> str:
    """Return the name by which the kubelet finds an image. With a digest, the tag does not count (distribution/reference)."""
    return re.sub(r":[^:@/]+@", "@", reference)


def remove_abandoned(folder: str) -> None:
    """Remove the copies of archives that interrupted runs have left. Another run may have one that it uses."""
    for copy in Path(folder).glob("kube-scheduling-image-*"):
        # Each user can make a link of this name, and another run can remove its copy meanwhile.
        with contextlib.suppress(OSError):
            if copy.is_dir() and not copy.is_symlink() and time.time() - copy.stat().st_mtime > ABANDONED_S:
                shutil.rmtree(copy, ignore_errors=True)
