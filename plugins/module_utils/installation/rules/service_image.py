# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The mistakes in the variables of the role service_image."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Iterator, Mapping

REGISTRY = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:]+\])(:[0-9]+)?(/[a-z0-9._-]+)*$")
"""REGISTRY or REGISTRY/PATH."""


def mistakes(variables: Mapping[str, t.Any]) -> Iterator[str]:
    """Yield a sentence for each mistake."""
    if variables["service_image_state"] != "present":
        return
    delivery = variables["service_image_delivery"]
    reference, registry = str(variables["service_image_reference"] or ""), str(variables["service_image_registry"] or "")
    is_built = delivery == "archive" or (delivery == "registry" and bool(registry))
    if not reference and not is_built:
        pushed = "in a registry, or service_image_registry to the place where the image is pushed"
        place = pushed if delivery == "registry" else "that the nodes have"
        yield f"service_image_delivery is {delivery}, and no image is named: set service_image_reference to an image {place}"
    if reference and is_built:
        yield (
            f"service_image_reference is {reference}, and service_image_delivery is {delivery}, which builds an image with a name of its"
            f" own: remove service_image_reference{' or service_image_registry' if registry else ', or use another delivery'}"
        )
    if "@" in reference and not re.match(r"[^@]+@sha256:[0-9a-f]{64}$", reference):
        yield (
            f"service_image_reference is {reference}, and its digest is not complete: after @ come sha256: and 64 hexadecimal digits. The"
            " registry prints it after a push"
        )
    if "://" in reference:
        scheme = reference[: reference.rindex("://") + 3]
        yield f"service_image_reference is {reference}: remove {scheme}, because the name of an image has no scheme"
    if registry and not REGISTRY.match(registry):
        bare = re.sub("^[A-Za-z]+://", "", registry).rstrip("/")
        yield (
            f"service_image_registry is {registry}: set it to the name of the registry and a path in lower case, without a scheme, a tag"
            f" and a / at the end, such as {bare if REGISTRY.match(bare) else 'registry.example.org/platform'}"
        )
