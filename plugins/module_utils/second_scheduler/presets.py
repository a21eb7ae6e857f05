# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The presets of a second scheduler: its extenders, their agents, and how much their scores count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MILD, ORIGINAL = "mild", "original"


@dataclass(frozen=True)
class PresetExtender:
    """One extender. ``agents`` has the weight of each agent in the extender, ``weight`` that of the extender in the scheduler.

    An extender that preempts gives no scores, and has no weight.
    """

    agents: Mapping[str, int]
    weight: int = 0
    preempts: bool = False


Preset = tuple[PresetExtender, ...]


def _alone(agent: str) -> dict[str, Preset]:
    """Return a preset with one agent. An original gives ten times the points of a plugin with the weight 1, and a mild one five times."""
    return {MILD: (PresetExtender({agent: 1}, 5),), ORIGINAL: (PresetExtender({agent: 1}, 10),)}


def _both(preset: Preset) -> dict[str, Preset]:
    return {MILD: preset, ORIGINAL: preset}


PRESETS: Mapping[str, Mapping[str, Preset]] = {
    "network_traffic": _alone("network_traffic"),
    # The original has two entries with the weights 1 and 10. One extender with the weight 11 gives the same sum of points.
    "safe": {
        MILD: (PresetExtender({"safe_overload": 1, "safe_balance": 1}, 5),),
        ORIGINAL: (PresetExtender({"safe_overload": 1, "safe_balance": 10}, 11),),
    },
    "congestion": _alone("congestion"),
    "pigeon": _alone("pigeon"),
    "reward": _alone("reward"),
    "safe_congestion": _both((PresetExtender({"safe_overload": 1}, 1), PresetExtender({"congestion": 1}, 1))),
    "safe_pigeon": _both((PresetExtender({"safe_overload": 1}, 1), PresetExtender({"pigeon": 1}, 1))),
    "budget_safe_preemption": _both((PresetExtender({"budgets": 1}, preempts=True),)),
}
"""The extenders of each preset by the kind of weights. Those of IBM/kube-safe-scheduler are in its folder yamlfiles and in kubeRL."""
