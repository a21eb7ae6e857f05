# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The options of a rebalancing pass. The settings of the rebalancer are read without the pass."""

from __future__ import annotations

import typing as t

from ...spread.options import CheckOptions
from ...spread.restart.options import RestartOptions


class PassOptions(t.NamedTuple):
    """The options of both parts. Their topology keys and max_skew are equal."""

    check: CheckOptions
    restart: RestartOptions
