# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The read of an object directly before an eviction, and the end of the Lease."""

from __future__ import annotations

import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import NotFoundError, ResponseDecodeError
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.model.api.pod import Pod
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.common.leader_lease import LeaderLease
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.requests import read_pod

from tests.unit.support.objects import running


def web(cpu: str, uid: str = "u") -> Pod:
    return running("", cpu, name="web", metadata={"uid": uid})


class Api:
    def __init__(self, found: Pod | None) -> None:
        self._found = found

    def with_timeouts(self, **_bounds: t.Any) -> Api:
        return self

    def get(self, *_of: t.Any) -> Pod:
        if self._found is None:
            raise NotFoundError("not found", status=404)
        return self._found


def test_a_fresh_pod_whose_quantities_cannot_be_read_is_an_error_that_names_it() -> None:
    api: t.Any = Api(web("nonsense"))
    with pytest.raises(ResponseDecodeError, match=r"app/web.*nonsense"):
        read_pod(api, web("1"))


def test_a_pod_of_the_same_name_with_another_uid_is_not_the_pod() -> None:
    api: t.Any = Api(web("1"))
    other = web("1", uid="other")
    assert read_pod(api, other) is None and read_pod(api, web("1")) is not None


def test_no_write_is_sent_after_the_release_of_the_lease() -> None:
    api: t.Any = Api(None)
    lease = LeaderLease(api, "me")
    assert lease.ends_at_s() is None, "before it is taken nothing is bounded by it"
    lease.release()
    ends_at_s = lease.ends_at_s()
    assert not lease.held and ends_at_s is not None and ends_at_s < 0
