# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""A guarded write is repeated after a conflict, and not repeated if only its answer was lost."""

from __future__ import annotations

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    was_not_applied,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.common.guarded_patch import write_guarded


class Object:
    """A number with a version. The next writes meet ``conflicts``: each is what another client writes, and whether our answer was lost."""

    def __init__(self, *conflicts: tuple[int, bool]) -> None:
        self.number, self.conflicts, self.writes, self.reads = 0, list(conflicts), 0, 0

    def read(self) -> int:
        self.reads += 1
        return self.number

    def write(self, found: int) -> None:
        """Add ten to the number as it was read."""
        self.writes += 1
        if self.conflicts:
            self.number, lost = self.conflicts.pop(0)
            error = ConflictError("conflict", status=409)
            error.repeated = lost
            raise error
        self.number = found + 10


def is_ten(number: int) -> bool:
    return number == 10


def test_write_is_repeated_on_the_newest_state_after_conflicts() -> None:
    one = Object((1, False), (2, False))
    assert write_guarded(one.read, one.write, is_ten) == 2
    assert (one.number, one.writes) == (12, 3)


def test_write_whose_answer_was_lost_is_not_repeated() -> None:
    one = Object((10, True))
    assert write_guarded(one.read, one.write, is_ten) == 10
    assert (one.number, one.writes) == (10, 1)


def test_same_content_of_another_writer_does_not_count_as_written() -> None:
    one = Object((10, False))
    write_guarded(one.read, one.write, is_ten)
    assert (one.number, one.writes) == (20, 2)


def test_write_is_repeated_if_its_answer_was_lost_and_it_was_not_made() -> None:
    one = Object((3, True))
    write_guarded(one.read, one.write, is_ten)
    assert (one.number, one.writes) == (13, 2)


def test_lost_answer_of_the_last_try_is_checked_before_it_fails() -> None:
    one = Object((1, False), (10, True))
    assert write_guarded(one.read, one.write, is_ten, attempts=2) == 10


def test_object_that_cannot_be_read_after_a_lost_answer_may_have_been_written() -> None:
    one = Object((10, True))

    def read() -> int:
        if one.writes:
            raise ForbiddenError("no", status=403)
        return one.read()

    with pytest.raises(ForbiddenError) as caught:
        write_guarded(read, one.write, is_ten)
    assert not was_not_applied(caught.value)


def test_object_that_keeps_changing_ends_with_the_conflict() -> None:
    one = Object(*[(number, False) for number in range(9)])
    with pytest.raises(ConflictError):
        write_guarded(one.read, one.write, is_ten, attempts=3)
    assert one.writes == 3


def test_other_errors_end_the_write_at_the_first_try() -> None:
    one = Object()

    def refuse(found: int) -> None:
        raise NotFoundError(f"{found}", status=404)

    with pytest.raises(NotFoundError):
        write_guarded(one.read, refuse, is_ten)
    assert one.reads == 1
