# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The errors that are repeated, for how long, and those that end a call. The lab cannot produce these answers on demand."""

from __future__ import annotations

import gzip
import json
import threading
import time
import typing as t

import pytest
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.api import KubeApi
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.errors import (
    ApiError,
    BudgetError,
    Cause,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    InvalidError,
    MultipleBudgetsError,
    NotSentError,
    OverloadedError,
    PatchTestError,
    RequestTarget,
    TLSError,
    UnauthorizedError,
    UnreachableError,
    api_error,
    is_admission_denial,
    is_permission_error,
    is_transient,
    was_not_applied,
)
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.http.transport import Body, Transport
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.client.resources import DEPLOYMENTS, NODES, PODS
from ansible_collections.onprem.kube_scheduling.plugins.module_utils.kube.snapshot_reader import read_snapshot

Answer = bytes | Body | Exception


def status(code: int, retry_after_s: float | None = None) -> ApiError:
    return api_error(verb="list", target=RequestTarget("pods"), status=code, message="said so", retry_after_s=retry_after_s)


def page(*names: str, token: str = "") -> bytes:
    items = [{"metadata": {"name": name, "namespace": "app", "uid": name}} for name in names]
    return json.dumps({"metadata": {"continue": token}, "items": items}).encode()


class Answers:
    """A transport that gives prepared answers in turn and notes what it was asked."""

    server = "https://test"
    server_time_s, server_version = None, ""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[dict[str, str]] = []
        self.timeouts: list[dict[str, float]] = []

    def request(self, method: str, path: str, *, query: t.Sequence[tuple[str, str]] = (), **rest: t.Any) -> Body:
        self.asked.append({"method": method, "path": path, **dict(query)})
        self.timeouts.append({name: value for name, value in rest.items() if "timeout" in name})
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Body) else Body(answer, packed=False, server=self.server)


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def __call__(self) -> float:
        return sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def api_with(*answers: Answer, retry_for_s: float = 60) -> tuple[KubeApi, Answers, Clock]:
    transport, clock = Answers(*answers), Clock()
    api = KubeApi(t.cast(Transport, transport), retry_for_s=retry_for_s, page_size=2, sleep=clock.sleep, clock=clock)
    return api, transport, clock


def names(pods: list[t.Any]) -> list[str]:
    return [pod.metadata.name for pod in pods]


def test_pages_follow_the_continue_token():
    api, transport, _clock = api_with(page("a", "b", token="t1"), page("c"))
    assert names(api.list_all(PODS, namespace="app", label_selector="x=y")) == ["a", "b", "c"]
    assert transport.asked == [
        {"method": "get", "path": "/api/v1/namespaces/app/pods", "limit": "2", "labelSelector": "x=y"},
        {"method": "get", "path": "/api/v1/namespaces/app/pods", "limit": "2", "labelSelector": "x=y", "continue": "t1"},
    ]


def test_an_expired_token_starts_the_list_again_without_doubles():
    api, _transport, _clock = api_with(page("a", token="t1"), status(410), page("a", token="t2"), page("b"))
    assert names(api.list_all(PODS)) == ["a", "b"]


def test_a_page_that_arrives_broken_starts_the_list_again() -> None:
    whole = gzip.compress(page("c", "d"))
    broken = Body(whole[:-8], packed=True, server="https://test")
    api, _transport, _clock = api_with(
        page("a", token="t1"), broken, page("a", token="t2"), Body(whole, packed=True, server="https://test")
    )
    assert names(api.list_all(PODS)) == ["a", "c", "d"]
    api, _transport, _clock = api_with(*[broken] * 9)
    with pytest.raises(UnreachableError, match="https://test"):
        api.list_all(PODS)


def test_a_token_that_always_expires_ends_with_its_error():
    api, transport, _clock = api_with(*[page("a", token="t"), status(410)] * 9)
    with pytest.raises(ExpiredError):
        api.list_all(PODS)
    assert len(transport.asked) == 6


@pytest.mark.parametrize("error", [status(429), status(500), status(502), status(503), status(504), UnreachableError("gone")])
def test_overload_and_broken_connections_are_repeated_with_growing_pauses(error):
    api, _transport, clock = api_with(error, error, error, page("a"))
    assert names(api.list_all(PODS)) == ["a"]
    assert clock.slept == [0.5, 1.0, 2.0]


def test_the_servers_retry_after_is_kept():
    api, _transport, clock = api_with(status(429, retry_after_s=7), page("a"))
    api.list_all(PODS)
    assert clock.slept == [7]


def test_repetition_ends_in_time_with_the_servers_error():
    api, transport, clock = api_with(*[status(429, retry_after_s=4)] * 9, retry_for_s=10)
    with pytest.raises(OverloadedError, match="HTTP 429"):
        api.list_all(PODS)
    assert clock.slept == [4, 4] and len(transport.asked) == 3


@pytest.mark.parametrize(("code", "kind"), [(401, UnauthorizedError), (403, ForbiddenError), (409, ConflictError), (501, ApiError)])
def test_what_would_not_go_away_is_not_repeated(code, kind):
    api, transport, _clock = api_with(status(code))
    with pytest.raises(kind):
        api.list_all(PODS)
    assert len(transport.asked) == 1


@pytest.mark.parametrize(
    ("first", "repeated"), [(UnreachableError("lost"), True), (status(504), True), (status(429), False)], ids=["lost", "504", "429"]
)
def test_a_patch_without_an_answer_is_repeated_under_its_guard(first: Exception, repeated: bool):
    api, transport, _clock = api_with(first, status(409))
    with pytest.raises(ConflictError) as caught:
        api.merge_patch(DEPLOYMENTS, "app", "web", {"metadata": {"resourceVersion": "1"}})
    assert [asked["method"] for asked in transport.asked] == ["patch", "patch"]
    assert caught.value.repeated is repeated, "whether the change may be its own"


@pytest.mark.parametrize("last", [status(403), status(404), status(422), NotSentError("no time"), TLSError("certificate")], ids=str)
def test_an_error_after_a_lost_answer_does_not_prove_that_nothing_was_written(last: Exception) -> None:
    api, transport, _clock = api_with(UnreachableError("lost"), last, retry_for_s=1)
    with pytest.raises(type(last)) as caught:
        api.merge_patch(DEPLOYMENTS, "app", "web", {"metadata": {"resourceVersion": "1"}})
    assert len(transport.asked) == 2 and not was_not_applied(caught.value)


def test_an_error_after_an_overloaded_server_proves_that_nothing_was_written() -> None:
    api, transport, _clock = api_with(status(429), status(403))
    with pytest.raises(ForbiddenError) as caught:
        api.merge_patch(DEPLOYMENTS, "app", "web", {"metadata": {"resourceVersion": "1"}})
    assert len(transport.asked) == 2 and was_not_applied(caught.value)


def test_an_event_is_never_written_twice():
    api, transport, _clock = api_with(UnreachableError("lost"), b"{}")
    with pytest.raises(UnreachableError):
        api.create_event("app", {})
    assert len(transport.asked) == 1


def test_a_snapshot_shares_equal_parts_of_pods():
    items = [
        {
            "metadata": {"name": name, "namespace": "app", "uid": name, "labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "main", "volumeMounts": [{"name": f"token-{name}"}], "resources": {"requests": {"cpu": "1"}}}],
                "volumes": [{"name": f"token-{name}", "projected": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
            },
        }
        for name in ("a", "b")
    ]
    empty = page()
    pods = json.dumps({"items": items}).encode()
    api, _transport, _clock = api_with(empty, empty, pods, *[empty] * 8)
    first, second = read_snapshot(api).pods
    assert first.spec.containers is second.spec.containers and first.metadata.labels is second.metadata.labels
    assert first.spec.volumes is second.spec.volumes and [volume.name for volume in first.spec.volumes or ()] == ["data"]


BUDGET = Cause("DisruptionBudget", "The disruption budget keep needs 3 healthy pods and has 3 currently")


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"status": 429, "causes": (BUDGET,)}, BudgetError),
        ({"status": 429, "causes": (BUDGET,), "retry_after_s": 10.0}, BudgetError),
        ({"status": 429, "retry_after_s": 1.0}, OverloadedError),
        ({"status": 500, "reason": ""}, MultipleBudgetsError),
        ({"status": 500, "reason": "InternalError"}, ApiError),
        ({"status": 500}, ApiError),  # a proxy's
        ({"status": 409}, ConflictError),
    ],
)
def test_an_eviction_is_asked_once_and_its_answers_are_told_apart(answer: dict[str, t.Any], kind: type[ApiError]) -> None:
    error = api_error(verb="create", target=RequestTarget("pods/eviction app/web"), message="said so", **answer)
    api, transport, clock = api_with(error)
    with pytest.raises(ApiError) as caught:
        api.evict("app", "web", uid="u")
    assert type(caught.value) is kind
    assert (caught.value.retry_after_s, len(transport.asked), clock.slept) == (answer.get("retry_after_s"), 1, [])
    if kind is BudgetError:
        assert str(caught.value) == f"cannot create pods/eviction app/web: said so {BUDGET.message}"


GUARDED = [{"op": "test", "path": "/spec/taints", "value": None}, {"op": "add", "path": "/spec/taints", "value": []}]
NOT_APPLIED = "the server rejected our request due to an error in our request"


def refused(message: str = NOT_APPLIED, causes: tuple[Cause, ...] = ()) -> ApiError:
    return api_error(verb="patch", target=RequestTarget("nodes n"), status=422, message=message, reason="Invalid", causes=causes)


def test_a_json_patch_with_a_test_is_repeated_and_says_that_it_may_have_got_through():
    api, transport, _clock = api_with(UnreachableError("lost"), refused())
    with pytest.raises(PatchTestError) as caught:
        api.json_patch(NODES, "", "n", GUARDED)
    assert caught.value.repeated and len(transport.asked) == 2


@pytest.mark.parametrize(("answers", "asked"), [((UnreachableError("lost"),), 1), ((status(504),), 1), ((status(429), b"{}"), 2)])
def test_a_json_patch_without_a_test_is_repeated_only_where_nothing_was_done(answers, asked):
    api, transport, _clock = api_with(*answers)
    if asked == 1:
        with pytest.raises((ApiError, UnreachableError)):
            api.json_patch(NODES, "", "n", GUARDED[1:])
    else:
        api.json_patch(NODES, "", "n", GUARDED[1:])
    assert len(transport.asked) == asked


@pytest.mark.parametrize("error", [refused("spec is invalid"), refused(causes=(Cause("FieldValueInvalid", "spec.taints"),))])
def test_what_validation_refuses_is_no_failed_test(error: ApiError):
    api, _transport, _clock = api_with(error)
    with pytest.raises(InvalidError) as caught:
        api.json_patch(NODES, "", "n", GUARDED)
    assert not isinstance(caught.value, PatchTestError)


def test_in_haste_nothing_is_repeated_for_long():
    api, transport, clock = api_with(*[UnreachableError("gone")] * 9)
    with pytest.raises(UnreachableError):
        api.with_timeouts(retry_for_s=2, answer_timeout_s=5).get(NODES, "", "n")
    assert clock.slept == [0.5, 1.0] and len(transport.asked) == 3


def test_a_list_that_has_ended_is_not_asked_for_any_more() -> None:
    asked: list[str] = []
    third = threading.Event()

    class Troubled:
        server, server_time_s, server_version = "https://test", None, ""

        def request(self, _method: str, _path: str, *, query: t.Any, on_start: t.Callable[[bytes], None], **_rest: t.Any) -> Body:
            token = dict(query).get("continue", "")
            asked.append(token)
            if token == "t1":
                on_start(b'{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"t2"},"items":[')
                assert third.wait(10)
                raise status(403)
            if token == "t2":
                third.set()
                raise status(503)
            return Body(page("a", token="t1"), packed=False, server=self.server)

    api = KubeApi(t.cast(Transport, Troubled()), sleep=lambda _seconds: time.sleep(0.01))
    with pytest.raises(ForbiddenError):
        api.list_all(PODS)
    time.sleep(0.1)
    before = len(asked)
    time.sleep(0.1)
    assert len(asked) == before, asked


# --- a server that has just started ---


def denied(verb: str = "list") -> ApiError:
    text = 'pods is forbidden: User "u" cannot list resource "pods" in API group "" at the cluster scope'
    return api_error(verb=verb, target=RequestTarget("pods", "pods in all namespaces"), status=403, message=text)


def test_a_first_denial_is_reported_immediately() -> None:
    api, transport, clock = api_with(denied(), page("a"))
    with pytest.raises(ForbiddenError, match="Grant the verb 'list'"):
        api.list_all(PODS)
    assert len(transport.asked) == 1 and clock.slept == []


def test_a_denial_of_what_the_run_was_allowed_before_is_asked_again() -> None:
    api, transport, clock = api_with(page("a"), denied(), denied(), page("b"))
    api.list_all(PODS)
    assert names(api.list_all(PODS)) == ["b"] and len(transport.asked) == 4 and sum(clock.slept) < 10


def test_a_denial_after_a_lost_connection_is_asked_again() -> None:
    api, _transport, _clock = api_with(UnreachableError("gone"), denied(), page("b"))
    assert names(api.list_all(PODS)) == ["b"]


def test_a_role_that_was_removed_is_reported_after_ten_seconds() -> None:
    api, _transport, clock = api_with(page("a"), *[denied()] * 40)
    api.list_all(PODS)
    with pytest.raises(ForbiddenError) as caught:
        api.list_all(PODS)
    assert 9 < sum(clock.slept) <= 11 and not caught.value.early
    before = sum(clock.slept)
    with pytest.raises(ForbiddenError):
        api.list_all(PODS)
    assert sum(clock.slept) == before, "that it is gone is known"


def test_what_was_allowed_in_one_namespace_says_nothing_about_another() -> None:
    api, _transport, clock = api_with(page("a"), denied())
    api.list_all(PODS, namespace="one")
    with pytest.raises(ForbiddenError):
        api.list_all(PODS, namespace="two")
    assert clock.slept == []


def test_a_refusal_by_admission_is_no_early_denial() -> None:
    refused = api_error(
        verb="create", target=RequestTarget("pods/eviction"), status=403, message='admission webhook "x" denied the request'
    )
    api, transport, _clock = api_with(UnreachableError("gone"), refused)
    with pytest.raises(UnreachableError):
        api.evict("app", "a", uid="u")
    with pytest.raises(ForbiddenError):
        api.evict("app", "a", uid="u")
    assert len(transport.asked) == 2


def not_ready(verb: str) -> ApiError:
    text = 'deployments.apps "web" is forbidden: not yet ready to handle request'
    return api_error(verb=verb, target=RequestTarget("Deployment app/web", "deployments in namespace app"), status=403, message=text)


def test_a_write_that_admission_denies_because_its_server_has_just_started_is_repeated() -> None:
    api, transport, _clock = api_with(not_ready("patch"), b"{}")
    api.merge_patch(DEPLOYMENTS, "app", "web", {"metadata": {"resourceVersion": "1"}})
    assert len(transport.asked) == 2


def test_a_denial_by_an_admission_that_is_not_ready_is_neither_a_refusal_nor_a_missing_role() -> None:
    error = not_ready("create")
    assert is_transient(error) and was_not_applied(error) and not is_admission_denial(error) and not is_permission_error(error)
    assert "Grant" not in str(error) and "HTTP 403" in str(error)


def test_an_eviction_that_a_server_denies_just_after_its_start_is_asked_for_again() -> None:
    api, transport, _clock = api_with(UnreachableError("gone"), denied("create"), page())
    with pytest.raises(UnreachableError):
        api.evict("app", "a", uid="u")
    api.evict("app", "a", uid="u")
    assert len(transport.asked) == 3


# --- writes that end in time ---


def bounded(left_s: float | None, *answers: Answer) -> tuple[KubeApi, Answers, Clock]:
    """A hasty API whose writes must have ended in so many seconds."""
    api, transport, clock = api_with(*answers)
    return (
        api.with_timeouts(retry_for_s=5, answer_timeout_s=10, until=lambda: None if left_s is None else clock() + left_s),
        transport,
        clock,
    )


WRITES: list[t.Callable[[KubeApi], object]] = [
    lambda api: api.evict("app", "a", uid="u"),
    lambda api: api.merge_patch(PODS, "app", "a", {"metadata": {"resourceVersion": "1"}}),
    lambda api: api.json_patch(PODS, "app", "a", [{"op": "test", "path": "/x", "value": 1}]),
    lambda api: api.create(PODS, "app", {"metadata": {"name": "a"}}),
    lambda api: api.create_event("app", {}),
]
ONE = json.dumps({"metadata": {"name": "a", "namespace": "app"}}).encode()


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("left_s", [3.0, 7.5, 3600.0])
def test_a_write_tells_the_server_and_the_client_to_end_in_time(write: t.Callable[[KubeApi], object], left_s: float) -> None:
    api, transport, _clock = bounded(left_s, ONE)
    write(api)
    (asked,) = transport.asked
    server_s = float(asked["timeout"].removesuffix("ms")) / 1000
    client_s = transport.timeouts[0]["connect_timeout_s"] + transport.timeouts[0]["timeout_s"]
    assert 1 <= server_s < client_s <= min(left_s, 10), "the server ends first, so that its answer is heard"


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("left_s", [1.9, 0.0, -5.0, float("-inf")])
def test_a_write_that_cannot_end_in_time_is_not_sent(write: t.Callable[[KubeApi], object], left_s: float) -> None:
    api, transport, _clock = bounded(left_s)
    with pytest.raises(NotSentError, match="was not sent"):
        write(api)
    assert transport.asked == []


@pytest.mark.parametrize("write", WRITES)
def test_a_write_of_a_program_without_a_lease_has_no_bound_of_its_own(write: t.Callable[[KubeApi], object]) -> None:
    api, transport, _clock = bounded(None, ONE)
    write(api)
    assert "timeout" not in transport.asked[0] and transport.timeouts[0]["timeout_s"] == 10


@pytest.mark.parametrize("write", WRITES[1:4])
def test_a_write_for_which_a_loop_waits_has_a_bound_of_its_own(write: t.Callable[[KubeApi], object]) -> None:
    api, transport, clock = api_with(ONE)
    hasty = api.with_timeouts(retry_for_s=5, answer_timeout_s=10, until=lambda: clock() + 10, write_within_s=4)
    write(hasty)
    client_s = transport.timeouts[0]["connect_timeout_s"] + transport.timeouts[0]["timeout_s"]
    assert client_s == 4 and float(transport.asked[0]["timeout"].removesuffix("ms")) < 4000


def test_an_eviction_has_the_whole_time_of_the_lease_because_nobody_waits_for_it() -> None:
    api, transport, clock = api_with(ONE)
    api.with_timeouts(retry_for_s=5, answer_timeout_s=10, until=lambda: clock() + 10, write_within_s=4).evict("app", "a", uid="u")
    assert transport.timeouts[0]["connect_timeout_s"] + transport.timeouts[0]["timeout_s"] == 10


def test_a_write_behind_a_slow_webhook_is_not_repeated() -> None:
    given_up = ApiError("context deadline exceeded", status=504, reason="Timeout")
    api, transport, clock = api_with(given_up, ONE)
    answer = transport.request

    def slow(*of: t.Any, **how: t.Any) -> t.Any:
        clock.sleep(3.8)
        return answer(*of, **how)

    transport.request = slow  # type: ignore[method-assign]
    hasty = api.with_timeouts(retry_for_s=5, answer_timeout_s=10, until=lambda: clock() + 10, write_within_s=4)
    with pytest.raises(ApiError):
        WRITES[1](hasty)
    assert len(transport.asked) == 1


def test_reads_are_not_bounded_by_the_lease() -> None:
    api, transport, _clock = bounded(0.0, page("a"))
    assert names(api.list_all(PODS)) == ["a"] and "timeout" not in transport.asked[0]


class Silence(Answers):
    """A transport whose answers that are errors come after a silence of the server."""

    def __init__(self, clock: Clock, silence_s: float, *answers: Answer) -> None:
        super().__init__(*answers)
        self.clock, self.silence_s = clock, silence_s

    def request(self, method: str, path: str, **rest: t.Any) -> Body:
        self.clock.sleep(self.silence_s)
        return super().request(method, path, **rest)


def silent_api(*answers: Answer, silence_s: float = 60, **bounds: t.Any) -> tuple[KubeApi, Silence]:
    clock = Clock()
    transport = Silence(clock, silence_s, *answers)
    return KubeApi(t.cast(Transport, transport), sleep=clock.sleep, clock=clock, **bounds), transport


GONE = UnreachableError("gone")


def test_a_read_is_repeated_once_after_a_silence_of_all_the_time_for_repetitions() -> None:
    api, _transport = silent_api(GONE, page("a"))
    assert names(api.list_all(PODS)) == ["a"]
    api, transport = silent_api(*[GONE] * 9)
    with pytest.raises(UnreachableError):
        api.list_all(PODS)
    assert len(transport.asked) == 2


@pytest.mark.parametrize(
    ("error", "bounds"),
    [
        pytest.param(TLSError("no"), {}, id="a server that is not trusted"),
        pytest.param(GONE, {"retry_for_s": 0.0}, id="no time for repetitions"),
        pytest.param(GONE, {"until": lambda: 100.0}, id="a bound before the end of a repetition"),
        pytest.param(status(503), {}, id="an answer"),
    ],
)
def test_no_read_is_repeated_late(error: Exception, bounds: dict[str, t.Any]) -> None:
    api, transport = silent_api(*[error] * 9, **bounds)
    with pytest.raises(type(error)):
        api.list_all(PODS)
    assert len(transport.asked) == 1


def test_a_repetition_that_ends_before_the_bound_is_made() -> None:
    api, _transport = silent_api(GONE, page("a"), until=lambda: 130.0)
    assert names(api.list_all(PODS)) == ["a"]


def test_a_write_without_a_guard_is_not_repeated_after_a_silence() -> None:
    api, transport = silent_api(*[GONE] * 9)
    with pytest.raises(UnreachableError):
        api.json_patch(PODS, "app", "a", [{"op": "add", "path": "/x", "value": "y"}])
    assert len(transport.asked) == 1
