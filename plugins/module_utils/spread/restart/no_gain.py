# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Reason against a restart: it is certain or possible that the replicas would not be spread better after it."""

from __future__ import annotations

import typing as t

from ...model.messages import pluralize
from ...model.reason import Reason
from ..prediction.prediction import Prediction

CODE = "no_gain"
NO_GAIN = "a restart would not spread the replicas better"
UNKNOWN_GAIN = "it is unknown whether a restart would spread the replicas better"


def no_gain_violation(prediction: t.Optional[Prediction]) -> t.Optional[Reason]:
    """Return the reason if a restart does not certainly spread the replicas better, with what prevents it. None if it helps."""
    if prediction is not None and prediction.restart_helps is True:
        return None
    certain = prediction is not None and prediction.restart_helps is False
    text = NO_GAIN if certain else UNKNOWN_GAIN
    blockers = prediction.blockers if prediction is not None else ()
    texts = [f"{b.reason.text} ({pluralize(b.nodes, 'node')})" if b.nodes else b.reason.text for b in blockers]
    return Reason(CODE, f"{text}: {', '.join(texts)}" if texts else text)
