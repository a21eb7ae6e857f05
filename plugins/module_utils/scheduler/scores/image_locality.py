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

from ...model.api.node import ContainerImage, Node
from ...model.api.pod import Pod
from ...model.identity_cache import IdentityDict
from ...model.reason import PASSED, Reason, Reasons
from ...model.snapshot import ClusterSnapshot
from .interface import MAX_NODE_SCORE

_MIB = 1024 * 1024
MIN_THRESHOLD_BYTES = 23 * _MIB
MAX_CONTAINER_THRESHOLD_BYTES = 1000 * _MIB

_DIFFERENT_SIZES: Reasons = (Reason("image_size", "nodes report different sizes of an image of the pod"),)


class ImageIndex:
    """The nodes of a snapshot by their images."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.total_nodes = len(snapshot.nodes)
        # Nodes share equal images (``model/interning.py``), so there are few different ones.
        nodes_by_image: IdentityDict[list[str]] = IdentityDict()
        for name, node in snapshot.nodes.items():
            for image in node.status.images or ():
                known = nodes_by_image.get(id(image))
                (known[1] if known is not None else nodes_by_image.keep(id(image), image, [])).append(name)
        self._by_name: dict[str, list[tuple[ContainerImage, list[str]]]] = {}
        for image, names in t.cast("Iterable[tuple[ContainerImage, list[str]]]", nodes_by_image.values()):
            for own in image.names or ():
                self._by_name.setdefault(own, []).append((image, names))

    def scaled_sizes(self, image: str) -> tuple[frozenset[str], int, int]:
        """Return the nodes with the image, and its smallest and its largest size, multiplied by the share of the nodes that have it."""
        found = self._by_name.get(image, ())
        nodes = frozenset(name for _image, names in found for name in names)
        sizes = [one.size_bytes for one, _names in found]
        share = len(nodes) / self.total_nodes
        return nodes, int(min(sizes, default=0) * share), int(max(sizes, default=0) * share)


class ImageLocalityScore:
    """The score of a node for one pod, 0 to 100.

    ``signature``: it is equal for pods with equal scores. ``may_be_unknown``: true if ``unknown`` returns a reason for some node.
    """

    def __init__(self, pod: Pod, index: ImageIndex) -> None:
        containers = len(pod.spec.all_containers)
        images = image_counts(pod)
        self.signature = (images, containers)
        self._largest = MAX_CONTAINER_THRESHOLD_BYTES * containers
        smallest_sums: Counter[str] = Counter()
        largest_sums: Counter[str] = Counter()
        for image, number in images:
            nodes, smallest, largest = index.scaled_sizes(image)
            for name in nodes:
                smallest_sums[name] += number * smallest
                largest_sums[name] += number * largest
        self._scores = {name: self._score(total) for name, total in smallest_sums.items()}
        self._unknown_nodes = frozenset(name for name, total in largest_sums.items() if self._score(total) != self._scores[name])
        self.may_be_unknown = bool(self._unknown_nodes)

    def _score(self, total: int) -> int:
        limited = min(max(total, MIN_THRESHOLD_BYTES), self._largest)
        return MAX_NODE_SCORE * (limited - MIN_THRESHOLD_BYTES) // (self._largest - MIN_THRESHOLD_BYTES)

    def score(self, node: Node) -> int:
        """Return the score of the node."""
        return self._scores.get(node.name, 0)

    def unknown(self, node: Node) -> Reasons:
        """Return the reason why the score of the node is not known."""
        return _DIFFERENT_SIZES if node.name in self._unknown_nodes else PASSED


def image_counts(pod: Pod) -> tuple[tuple[str, int], ...]:
    """Return the images of the containers and of the volumes of the pod, with the number of their uses."""
    images = [container.image for container in pod.spec.all_containers]
    images += [volume.image.reference for volume in pod.spec.volumes or () if volume.image is not None]
    return tuple(Counter(map(_normalised, images)).items())


def _normalised(image: str) -> str:
    """Return the name of the image with a tag or a digest (normalizedImageName)."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
