# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The mistakes in the variables of the role spread_cronjob."""

from __future__ import annotations

import typing as t
from collections.abc import Iterator, Mapping

from ...model.values.duration import parse_duration
from ..sentences import config_mistakes, image_mistakes


def mistakes(variables: Mapping[str, t.Any]) -> Iterator[str]:
    """Yield a sentence for each mistake."""
    settings, form = variables["spread_cronjob_settings"] or {}, variables["spread_cronjob_form"]
    yield from config_mistakes("spread_cronjob_settings", settings)
    if variables["spread_cronjob_state"] == "present":
        yield from image_mistakes("spread_cronjob_image", variables["spread_cronjob_image"])
    interval = settings.get("interval")
    try:
        seconds = parse_duration(interval)
    except ValueError:
        return  # there is none, or the program names it
    if form == "cronjob" and seconds > 0:
        yield (
            f"spread_cronjob_settings has the interval {interval}: each Job of a CronJob makes one pass, so remove the interval, or set"
            " spread_cronjob_form to deployment"
        )
    if form == "deployment" and seconds == 0:
        yield f"spread_cronjob_settings has the interval {interval}: a Deployment needs an interval above 0"
