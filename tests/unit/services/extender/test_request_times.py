# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The numbers and times of requests are those of the objects of prometheus_client."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.services.extender.request_times import BUCKETS_S, PREFIX, AnsweredRequests
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest

REQUESTS = st.tuples(
    st.sampled_from(["", "quiet", 'quo"te']), st.sampled_from(["filter", "prioritize"]), st.sampled_from(BUCKETS_S) | st.floats(0, 2)
)


@settings(max_examples=50, deadline=None)
@given(st.lists(REQUESTS))
def test_prometheus_reads_the_same_text(requests: list[tuple[str, str, float]]) -> None:
    disable_created_metrics()  # type: ignore[no-untyped-call]
    expected, registry = CollectorRegistry(), CollectorRegistry()
    labels = ["profile", "verb"]
    number = Counter(f"{PREFIX}requests", "Answered requests of the scheduler.", labels, registry=expected)
    text = "Seconds from the end of the request to its answer."
    times = Histogram(f"{PREFIX}request_seconds", text, labels, buckets=BUCKETS_S, registry=expected)
    found = AnsweredRequests()
    registry.register(found)
    for profile, verb, seconds in requests:
        number.labels(profile, verb).inc()
        times.labels(profile, verb).observe(seconds)
        found.count(profile, verb, seconds)
    assert generate_latest(registry) == generate_latest(expected)
