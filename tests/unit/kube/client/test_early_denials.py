# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Some denials of an API server are transient, for at most ten seconds."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.early_denials import (
    EARLY_FOR_S,
    LOST_FOR_S,
    EarlyDenials,
)

from tests.unit.support.clock import SetClock

LIST, WATCH = ("list", "pods in all namespaces"), ("watch", "pods in all namespaces")


def test_a_first_denial_is_final() -> None:
    denials = EarlyDenials(SetClock())
    denials.note_allowed(WATCH)
    assert not denials.is_early(LIST) and not denials.is_early(LIST), "the verb is part of the request"


def test_a_denial_of_what_was_allowed_may_pass_for_ten_seconds() -> None:
    time = SetClock()
    denials = EarlyDenials(time)
    denials.note_allowed(LIST)
    assert denials.is_early(LIST)
    time.now_s += EARLY_FOR_S - 0.1
    assert denials.is_early(LIST)
    time.now_s += 0.2
    assert not denials.is_early(LIST), "a user has removed the role"
    time.now_s += 3600
    assert not denials.is_early(LIST)
    denials.note_allowed(LIST)
    assert denials.is_early(LIST), "the role was there again"


def test_any_denial_after_a_lost_connection_may_pass_for_ten_seconds() -> None:
    time = SetClock()
    denials = EarlyDenials(time)
    denials.note_lost()
    time.now_s += LOST_FOR_S - 1
    assert denials.is_early(LIST)
    time.now_s += EARLY_FOR_S + 1
    assert not denials.is_early(LIST)
    denials.note_lost()
    assert denials.is_early(LIST), "another server may have started"


def test_after_a_connection_that_was_lost_long_ago_a_denial_is_final() -> None:
    time = SetClock()
    denials = EarlyDenials(time)
    denials.note_lost()
    time.now_s += LOST_FOR_S
    assert not denials.is_early(LIST)


def test_the_first_denials_of_a_patient_program_may_pass_for_ten_seconds() -> None:
    time = SetClock()
    denials = EarlyDenials(time, patient=True)
    denials.note_allowed(WATCH)
    assert denials.is_early(LIST), "the server may have just started"
    time.now_s += EARLY_FOR_S + 0.1
    assert not denials.is_early(LIST), "a role is missing"
