# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The part of a pod that the static filters depend on, as a key of caches. It needs no other file of this folder."""

from __future__ import annotations

from ..model.api.pod import Pod
from ..model.codec import encode_json


def static_signature(pod: Pod) -> bytes:
    """Return the part of the pod that the static filters depend on. Their results are the same for pods for which this is equal."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    return encode_json((pod.spec.node_name, pod.spec.node_selector, affinity, pod.spec.tolerations))
