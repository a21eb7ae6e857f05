# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The metadata of watched objects: as they are decoded, and as they are kept."""

from __future__ import annotations

from .....plugins.module_utils.model.api.meta import ApiStruct, Labels, OwnerReference
from .....plugins.module_utils.model.codec import Struct


class Identity(Struct, frozen=False, gc=False):
    """The identity of an object in a store. The store writes ``resource_version``."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Metadata(ApiStruct, frozen=True):
    """The metadata of a watched object."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: Labels | None = None
    annotations: Labels | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """Return None. ``as_undecodable`` reads it, also of nodes, which have no controller."""
        return None
