# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Annotations are read as ``value`` or ``value,time``."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.services.extender.sources.kubernetes.node_objects import AnnotatedValue, parse_annotation


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("42", AnnotatedValue(42.0, None)),
        (" 4.5e3 ", AnnotatedValue(4500.0, None)),
        ("-1", AnnotatedValue(-1.0, None)),
        ("0.65,1767225600", AnnotatedValue(0.65, 1767225600.0)),
        ("0.65, 2026-01-01T00:00:00Z", AnnotatedValue(0.65, 1767225600.0)),
        ("0.65,2026-01-01T08:00:00+08:00", AnnotatedValue(0.65, 1767225600.0)),
        ("7,2026-01-01", None),
        ("7,99999999999999", None),
        ("", None),
        ("high", None),
        ("1_000", None),
        ("nan", None),
        ("1e999", None),
        ("1,", None),
        ("512Mi", None),
        ("1" * 65, None),
    ],
)
def test_value_and_time(text: str, found: AnnotatedValue | None) -> None:
    assert parse_annotation(text) == found
