# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The age of the oldest hold: by the API server's clock, and from the holds in the cluster."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.codec import decode_json, encode_json, replace
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.state.hold import Hold, make_hold
from ansible_collections.onprem.kube_scheduling.services.rescuer.metrics import Metrics

from tests.unit.state.test_hold import KEY, NOW, dns
from tests.unit.support.clock import SetClock


def hold(*, since_s: float | None, uid: str = "u-1") -> Hold:
    return make_hold(dns(uid=uid), key=KEY, deadline_s=NOW + 720, writer="another", since_s=since_s)


def clock_at(now_s: float) -> SetClock:
    made = SetClock()
    made.now_s = now_s
    return made


class Ages:
    """The gauge of the oldest hold."""

    def __init__(self, clock: SetClock) -> None:
        self._metrics, self._clock = Metrics(), clock

    def update(self, *holds: Hold) -> None:
        self._metrics.set_holds(holds, self._clock)

    def oldest_s(self) -> float:
        return next(sample.value for sample in self._metrics.oldest_hold.collect()[0].samples)


def test_without_a_hold_the_age_is_0() -> None:
    ages = Ages(clock_at(NOW))
    assert ages.oldest_s() == 0
    ages.update()
    assert ages.oldest_s() == 0


def test_oldest_of_several_holds_counts_and_its_age_grows_between_updates() -> None:
    clock = clock_at(NOW)
    ages = Ages(clock)
    ages.update(hold(since_s=NOW - 30), hold(since_s=NOW - 90, uid="u-2"), hold(since_s=NOW - 60, uid="u-3"))
    assert ages.oldest_s() == 90
    clock.sleep(5)
    assert ages.oldest_s() == 95
    ages.update(hold(since_s=NOW - 30))
    assert ages.oldest_s() == 35
    ages.update()
    assert ages.oldest_s() == 0


def test_hold_of_a_server_whose_clock_is_ahead_has_no_negative_age() -> None:
    """With several API servers the clock that made the hold can be another one than the clock that is read."""
    ages = Ages(clock_at(NOW))
    ages.update(hold(since_s=NOW + 3))
    assert ages.oldest_s() == 0


def test_hold_without_a_known_time_counts_as_new() -> None:
    ages = Ages(clock_at(NOW))
    for unknown in (hold(since_s=None), replace(hold(since_s=NOW - 90), since="soon")):
        ages.update(unknown)
        assert ages.oldest_s() == 0


def test_time_of_a_hold_is_stored_with_it_and_older_texts_without_it_are_read() -> None:
    stored = encode_json(hold(since_s=NOW))
    assert decode_json(Hold, stored).since_s == NOW
    without = decode_json(Hold, stored.replace(hold(since_s=NOW).since.encode(), b""))
    assert without.since_s is None and without == hold(since_s=None)
    assert decode_json(Hold, stored.partition(b',"since"')[0] + b"}") == without
