# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Random choices with a seed."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Choices(Random):
    """A generator with the choices that random clusters are made of."""

    def chance(self, rate: float) -> bool:
        """Return True with this probability."""
        return self.random() < rate

    def some(self, values: Sequence[T], rate: float) -> list[T]:
        """Return each of the values with this probability, in their order."""
        return [value for value in values if self.chance(rate)]

    def weighted(self, weights: dict[T, float]) -> T:
        """Return one of the keys, with the values as weights."""
        return self.choices(list(weights), list(weights.values()))[0]
