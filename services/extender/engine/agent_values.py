# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Checks of the values in a judgement. An agent of a third party may return anything, such as a number of a library or a text."""

from __future__ import annotations

import typing as t

from ..interface import Judgement

NUMBERS: t.Final = frozenset((float, type(None)))


def checked(judgement: Judgement) -> Judgement:
    """Return the judgement with numbers of type float and an explanation of type str. Raises TypeError for other types."""
    if not isinstance(judgement, Judgement):
        raise TypeError(f"a Judgement is expected, and the agent returned {type(judgement).__name__}")
    score, value, explanation, measured_at_s, rejection = judgement
    # Almost all judgements are right, and each refresh has thousands of them.
    if (
        type(score) in NUMBERS
        and type(value) in NUMBERS
        and type(measured_at_s) in NUMBERS
        and isinstance(explanation, str)
        and isinstance(rejection, str)
        and _is_encodable(explanation)
        and _is_encodable(rejection)
    ):
        return judgement
    if not isinstance(rejection, str):
        raise TypeError(f"a rejection is a text, and the agent returned {type(rejection).__name__}")
    return Judgement(
        as_number("score", score),
        as_number("value", value),
        as_text(explanation),
        as_number("measured_at_s", measured_at_s),
        as_text(rejection),
    )


def _is_encodable(text: str) -> bool:
    """Return whether no half of a surrogate pair is in the text."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_text(value: t.Any) -> str:
    """Return the value as text. Half a surrogate pair becomes a question mark, because no answer could contain it."""
    return str(value).encode("utf-8", "replace").decode()


def as_number(name: str, value: t.Any) -> float | None:
    """Return the number as float. ``name``: for the text of the error.

    Raises TypeError for a text, which float() would accept, and OverflowError for an integer above 1e308.
    """
    if value is None:
        return None
    if isinstance(value, str | bytes | bytearray):
        raise TypeError(f"{name} is a number, and the agent returned {type(value).__name__}")
    return float(value)
