# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The part of a pod's traffic or load that a measured mean does not show yet, because the pod is new, or still shows although it has ended.

A mean over a window shows a pod in proportion to the time that the pod has run in the window. After a binding the mean needs a whole window
to show all of the pod. Without a correction the scheduler would send pod after pod to a node that only seems to be idle.

A pod that has ended only makes the correction for new pods smaller. The corrected load is never below the measured one. The part of a
pod in the measured load is not known, and an idle pod that declared much would hide the load of the others. The measured load falls
within a window.
"""

from __future__ import annotations

from ..interface import PodView


def unmeasured_share(pod: PodView, measured_at_s: float, window_s: float) -> float:
    """Return the difference between the present and the measured load of a pod, in parts of the pod's whole load.

    1: bound after the measurement. 0: the pod has run for the whole window. −1: it ran for the whole window and has ended since.
    """
    if pod.bound_at_s is None:
        return 0.0
    ended_at_s = measured_at_s if pod.ended_at_s is None else min(pod.ended_at_s, measured_at_s)
    measured_s = max(0.0, ended_at_s - max(pod.bound_at_s, measured_at_s - window_s))
    return (1.0 if pod.ended_at_s is None else 0.0) - measured_s / window_s
