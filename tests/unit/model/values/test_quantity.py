# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Quantities: expected values as apimachinery's Quantity gives them (MilliValue and Value round up)."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.values.quantity import (
    NANO,
    QuantityError,
    milli_value,
    parse_quantity,
    value,
)


@pytest.mark.parametrize(
    ("text", "milli", "whole"),
    [
        ("0", 0, 0),
        ("1", 1000, 1),
        ("250m", 250, 1),
        ("0.5m", 1, 1),
        ("100n", 1, 1),
        ("1u", 1, 1),
        ("1.5", 1500, 2),
        (".5", 500, 1),
        ("5.", 5000, 5),
        ("1Ki", 1024000, 1024),
        ("1.5Gi", 1610612736000, 1610612736),
        ("2k", 2000000, 2000),
        ("2e3", 2000000, 2000),
        ("2E3", 2000000, 2000),
        ("1E", 10**21, 10**18),
        ("12e-1", 1200, 2),
        ("-1", -1000, -1),
        ("-1500m", -1500, -1),
        ("+3", 3000, 3),
        ("0.1n", 1, 1),
        ("-0.1n", 0, 0),
        ("16Ei", (2**63 - 1) * 1000, 2**63 - 1),
        ("1e30", (2**63 - 1) * 1000, 2**63 - 1),
        ("-1e30", -(2**63 - 1) * 1000, -(2**63 - 1)),
        ("0.1234567890123456789012345678901234567890", 124, 1),
    ],
)
def test_values(text, milli, whole):
    assert (milli_value(parse_quantity(text)), value(parse_quantity(text))) == (milli, whole)


@pytest.mark.parametrize("text", ["", "m", "1.2.3", "1 Gi", "1gi", "0x10", "1KI", "1e", "--1", "1Gi1", "one"])
def test_what_is_no_quantity_is_refused_with_its_text(text):
    with pytest.raises(QuantityError, match="is not a Kubernetes quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("sign", ["", "+", "-"])
@pytest.mark.parametrize("ending", ["", "n", "u", "m", "k", "M", "E", "Ki", "Gi", "Ei", "e3", "E-4", "e+12", "e-999", "e999"])
@pytest.mark.parametrize("number", ["0", "7", "0.5", ".25", "5.", "123456789.987654321", "0.00000000000000000001", "99999999999999999999"])
def test_the_nano_units_are_those_of_an_exact_fraction_rounded_up_and_capped(number, ending, sign):
    powers = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "E": 18}
    binary = {"Ki": 10, "Gi": 30, "Ei": 60}
    text = f"{sign}{number}{ending}"
    if ending[:1] in ("e", "E") and len(ending) > 1 and ending not in binary:
        exact = Fraction(text)
    else:
        exact = Fraction(f"{sign}{number}") * Fraction(10) ** powers.get(ending, 0) * 2 ** binary.get(ending, 0)
    largest = (2**63 - 1) * NANO
    assert parse_quantity(text) == max(-largest, min(largest, ceil(exact * NANO)))
