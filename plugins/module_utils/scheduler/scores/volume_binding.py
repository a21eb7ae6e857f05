# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The capacity of volumes (kubernetes ``plugins/volumebinding/volume_binding.go``, PreScore and Score, and ``scorer.go``).

The plugin scores no node by default. It does so if a profile gives it a shape, which needs the feature gate StorageCapacityScoring.
"""

from __future__ import annotations

from ...model.api.pod import Pod, mounts_claims
from ...model.reason import PASSED, Reason, Reasons
from ...model.score_settings import ScoreSettings

VOLUME_BINDING = "VolumeBinding"
_CAPACITY: Reasons = (Reason("volume_scores", "the scheduler scores nodes by the capacity of volumes, which is not computed"),)


def volume_score_unknowns(pod: Pod, settings: ScoreSettings) -> Reasons:
    """Return the reason why the scores of the plugin are not known. It scores 0 on each node for a pod without claims."""
    return _CAPACITY if settings.scores_volumes and mounts_claims(pod) else PASSED
