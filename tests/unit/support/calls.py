# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Counts the calls of a function, for tests about the amount of work."""

from __future__ import annotations

import typing as t


class CountedCalls:
    """The function, which counts its calls in ``count``. In the place of a method, it gets the object as its first argument."""

    def __init__(self, function: t.Callable[..., t.Any]) -> None:
        self.count = 0
        self._function = function

    def __call__(self, *args: t.Any, **kwargs: t.Any) -> t.Any:
        self.count += 1
        return self._function(*args, **kwargs)

    def __get__(self, instance: t.Any, _owner: type[t.Any]) -> t.Callable[..., t.Any]:
        return lambda *args, **kwargs: self(instance, *args, **kwargs)
