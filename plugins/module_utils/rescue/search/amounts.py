# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Amounts by kind of capacity: resources, places for pods, host ports."""

from __future__ import annotations

Amounts = tuple[int, ...]
"""By kind of room (``shortage.PodDemand``)."""


def less(amounts: Amounts, freed: Amounts) -> Amounts:
    return tuple(amount - gone for amount, gone in zip(amounts, freed))
