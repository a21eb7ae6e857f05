# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Images of the pod that are already on the node (kubernetes ``plugins/imagelocality/image_locality.go``).

The size of an image is the one that the first node with this name reports to the scheduler (``backend/cache/cache.go``,
addNodeImageStates). If nodes report different sizes for one name, it is not known which of them counts.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from collections.abc import Iterable

from ...model.api.node import ContainerImage, StatusWithImages
from ...model.api.pod import Pod
from ...model.caches import IdentityDict
from ...model.reason import PASSED, Reason, Reasons
from ...model.snapshot import ClusterSnapshot
from .interface import MAX_NODE_SCORE

_MIB = 1024 * 1024
MIN_THRESHOLD_BYTES = 23 * _MIB
MAX_CONTAINER_THRESHOLD_BYTES = 1000 * _MIB

ImageSize = t.Literal["smallest", "largest"]
"""The size of an image that counts where nodes report different ones."""

DIFFERENT_SIZES: Reasons = (Reason("image_size", "nodes report different sizes of an image of the pod"),)
IMAGES_NOT_READ: Reasons = (Reason("images_not_read", "the images of the nodes were not read"),)


class ImageIndex:
    """The nodes of a snapshot by their images. ``is_complete``: the images of all nodes were read."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.total_nodes = len(snapshot.nodes)
        self.is_complete = True
        # Nodes share equal images (``model/interning.py``), so there are few different ones.
        nodes_by_image: IdentityDict[list[str]] = IdentityDict()
        for name, node in snapshot.nodes.items():
            status = node.status
            if not isinstance(status, StatusWithImages):
                self.is_complete = False
                break
            for image in status.images or ():
                known = nodes_by_image.get(id(image))
                (known[1] if known is not None else nodes_by_image.keep(id(image), image, [])).append(name)
        self._by_name: dict[str, list[tuple[ContainerImage, list[str]]]] = {}
        entries: Iterable[tuple[t.Any, list[str]]] = nodes_by_image.values()
        for image, names in entries:
            for own in image.names or ():
                self._by_name.setdefault(own, []).append((image, names))

    def scaled_sizes(self, image: str) -> tuple[frozenset[str], int, int]:
        """Return the nodes with the image, and its smallest and its largest size, multiplied by the share of the nodes that have it."""
        found = self._by_name.get(image, ())
        nodes = frozenset(name for _image, names in found for name in names)
        sizes = [one.size_bytes for one, _names in found]
        share = len(nodes) / self.total_nodes if self.total_nodes else 0.0
        return nodes, int(min(sizes, default=0) * share), int(max(sizes, default=0) * share)


class ImageLocalityScore:
    """The scores of the nodes for one pod. ``counts_volumes``: images of volumes count, which they do since Kubernetes 1.36.

    ``size``: the size that counts where nodes report different ones. None means that it is not known.
    ``by_node``: the scores above 0 by node name. ``unknown``: the reason why no score is known. ``unknown_nodes``: the nodes whose score is
    not known.
    """

    def __init__(self, pod: Pod, index: ImageIndex, *, counts_volumes: bool, size: ImageSize | None = None) -> None:
        self.unknown = PASSED if index.is_complete else IMAGES_NOT_READ
        self._largest = MAX_CONTAINER_THRESHOLD_BYTES * len(pod.spec.all_containers)
        smallest_sums: Counter[str] = Counter()
        largest_sums: Counter[str] = Counter()
        for image, number in _image_counts(pod, with_volumes=counts_volumes).items():
            nodes, smallest, largest = index.scaled_sizes(image)
            for name in nodes:
                smallest_sums[name] += number * smallest
                largest_sums[name] += number * largest
        scores = {name: self._score(total) for name, total in (largest_sums if size == "largest" else smallest_sums).items()}
        differing = (name for name, total in largest_sums.items() if self._score(total) != scores[name])
        self.unknown_nodes = frozenset(differing if size is None else ())
        self.by_node = {name: score for name, score in scores.items() if score}

    def _score(self, total: int) -> int:
        limited = min(max(total, MIN_THRESHOLD_BYTES), self._largest)
        return MAX_NODE_SCORE * (limited - MIN_THRESHOLD_BYTES) // (self._largest - MIN_THRESHOLD_BYTES)


def _image_counts(pod: Pod, *, with_volumes: bool) -> Counter[str]:
    """Return the images of the containers, and of the volumes of the pod, with the number of their uses."""
    images = [container.image for container in pod.spec.all_containers]
    if with_volumes:
        images += [volume.image.reference for volume in pod.spec.volumes or () if volume.image is not None]
    return Counter(map(_normalised, images))


def _normalised(image: str) -> str:
    """Return the name of the image with a tag or a digest (normalizedImageName)."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
