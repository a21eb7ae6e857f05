# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Amounts by kind of capacity: resources, pod slots, host ports."""

from __future__ import annotations

Amounts = tuple[int, ...]
"""The amounts by kind of capacity (``shortage.PodDemand``)."""


def less(amounts: Amounts, freed: Amounts) -> Amounts:
    """Return the amounts that remain after the freed amounts are subtracted."""
    return tuple(amount - gone for amount, gone in zip(amounts, freed))
