# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""One rescue from beginning to end, as k8s_critical_rescue makes it."""

from __future__ import annotations

import time
import typing as t
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ...kube.api import KubeApi
from ...kube.errors import InvalidError, KubeError, may_pass
from ...kube.resources import PODS
from ...kube.watch_cache import WatchCache
from ...model.objects import Pod
from ...model.reasons import Reason
from ...rescue.critical import effective_priority, is_critical
from ...rescue.options import RELEASED, RescueOptions
from ...rescue.plan import IMPOSSIBLE, WAITING, Judgement
from .attempts import RescueAttempts
from .case import FAILED, POD_GONE, RESCUED, Case
from .lease import ASKED_EVERY_S, LeaseLostError, RescueLease, identity
from .request import RescueOptionError, RescueRequest, missing_namespaces
from .rescuer import OTHER_RESCUER, Rescuer, in_time
from .witness import Witness

LEASE_TIMEOUT_S = 20.0
STEADY_S = 0.02
"""Changes come in bursts: so long a moment lets the rest of one arrive before the next look."""


class Released(t.NamedTuple):
    """A node that was given back, or would be."""

    node: str
    pod: str


class Outcome(t.NamedTuple):
    """What came of a run: its cases, the nodes that were given back, what went wrong without stopping it, and what stopped it."""

    cases: list[Case]
    released: list[Released]
    warnings: tuple[str, ...] = ()
    error: t.Optional[KubeError] = None


class _Notes(Witness):
    """Keeps what the result has to say: troubles, each text once, and the nodes that were given back."""

    def __init__(self) -> None:
        self.troubles: dict[str, None] = {}
        self.nodes: list[Released] = []

    def troubled(self, what: str) -> None:
        self.troubles[what] = None

    def released(self, node_name: str, pod_name: str) -> None:
        self.nodes.append(Released(node_name, pod_name))

    def outcome(self, cases: list[Case], *, planned: t.Sequence[Released] = (), error: t.Optional[KubeError] = None) -> Outcome:
        """With what is noted; ``planned``: the nodes that would be given back."""
        return Outcome(cases, [*self.nodes, *planned], tuple(self.troubles), error)


class RescueError(KubeError):
    """The run could not do what it was asked for; the text says why and what to do."""


def run_rescue(api: KubeApi, request: RescueRequest) -> Outcome:
    """Rescue the pods that need it, or give all nodes back. Raises RescueOptionError, RescueError and KubeError."""
    cache = WatchCache(api)
    writer = identity()
    lease = RescueLease(api, writer)
    quick = in_time(api)
    selected = _selected(api, request)
    notes = _Notes()
    cache.start()
    try:
        missing = missing_namespaces(request.options, cache.snapshot()) if request.state != RELEASED else ""
        if missing:
            raise RescueOptionError(missing)
        rescuer = Rescuer(
            quick,
            cache,
            request.options,
            lease=lease,
            attempts=RescueAttempts(quick),
            writer=writer,
            witness=notes,
            selected=selected,
            dry_run=request.dry_run,
        )
        try:
            if request.state == RELEASED:
                planned = _release_all(rescuer, cache, lease, request)
                return notes.outcome([], planned=planned)
            _rescue(rescuer, cache, lease, request)
        except KubeError as error:
            if not rescuer.cases:
                raise
            # What was done before must not go unsaid.
            for case in rescuer.cases.values():
                if not case.has_ended and case.status != IMPOSSIBLE:
                    case.end(FAILED, Reason("error", str(error)))
            return notes.outcome(list(rescuer.cases.values()), error=error)
        return notes.outcome([*rescuer.cases.values(), *_others(rescuer, cache, request)])
    finally:
        cache.stop()


# --- rescued ----------------------------------------------------------------------------------------------------------


def _rescue(rescuer: Rescuer, cache: WatchCache, lease: RescueLease, request: RescueRequest) -> None:
    started_at_s = time.monotonic()
    ask_at_s = 0.0
    with _given_back(rescuer, lease):
        while True:
            version = cache.version
            rest_s = rescuer.tick()
            if _is_done(rescuer, request, started_at_s):
                break
            now_at_s = time.monotonic()
            if not request.dry_run and not lease.held and now_at_s >= ask_at_s and _has_work(rescuer):
                ask_at_s = now_at_s + ASKED_EVERY_S
                if _acquire(lease):
                    continue
            cache.wait_for_change(version, min(rest_s, ASKED_EVERY_S))
            time.sleep(STEADY_S)


def _acquire(lease: RescueLease) -> bool:
    """Ask once; an API server that is away for a moment is asked again later."""
    try:
        return lease.acquire(0)
    except KubeError as error:
        if not may_pass(error):
            raise
        return False


def _has_work(rescuer: Rescuer) -> bool:
    """Something would be written: without that no Lease is taken."""
    planned = any(case.reason is not None and case.reason.code == OTHER_RESCUER for case in rescuer.cases.values())
    return planned or bool(rescuer.holds.left) or bool(rescuer.holds.untended)


def _is_done(rescuer: Rescuer, request: RescueRequest, started_at_s: float) -> bool:
    """Every case has ended, cannot be helped, or has waited for long enough for something else to end; and no node is left held."""
    now_at_s = time.monotonic()
    waiting = [case for case in rescuer.cases.values() if not case.has_ended and (case.status != IMPOSSIBLE or case.evicted)]
    if request.dry_run:  # a plan waits for nothing but the scheduler's own turn, and for answers to its questions
        return all(case.status == WAITING and case.settles_at_s < now_at_s for case in waiting)
    if waiting:
        return now_at_s > started_at_s + request.options.scheduled_timeout and not rescuer.at_work
    # What a killed run has left can be taken off as soon as its Lease has run out; another program takes it off by itself.
    return not rescuer.holds.left or now_at_s > started_at_s + LEASE_TIMEOUT_S


@contextmanager
def _given_back(rescuer: Rescuer, lease: RescueLease) -> Iterator[None]:
    """Whatever happens, no node stays held, and the Lease is free for the next."""
    try:
        yield
    finally:
        try:
            if lease.held:
                with suppress(LeaseLostError):  # whoever has it now gives them back
                    rescuer.let_go_of_nodes()
        finally:
            if lease.holder:
                lease.release()


# --- pods that are no case --------------------------------------------------------------------------------------------


def _selected(api: KubeApi, request: RescueRequest) -> t.Callable[[Pod], bool]:
    """Whether a pod is one of those that name and selector leave; the server says which ones the selector means."""
    if not request.name and not request.label_selector:
        return lambda _pod: True
    found: list[Pod] = []
    for namespace in request.options.namespaces:
        try:
            found += api.list_all(PODS, namespace=namespace, label_selector=request.label_selector)
        except InvalidError as error:
            raise RescueOptionError(f"label_selector: {error}") from error
    found = [pod for pod in found if request.name in ("", pod.metadata.name)]
    if request.name and not found:
        beside = f" with the labels {request.label_selector}" if request.label_selector else ""
        raise RescueError(f"Pod {request.name}{beside} is not in namespace {' or '.join(request.options.namespaces)}: check its name")
    if request.name:
        return lambda pod: pod.metadata.name == request.name  # also one that a controller makes anew under it
    uids = {pod.metadata.uid for pod in found}
    return lambda pod: pod.metadata.uid in uids


def _others(rescuer: Rescuer, cache: WatchCache, request: RescueRequest) -> list[Case]:
    """A pod that was asked for by name gets an answer also where it needs no rescue, or cannot be a case."""
    if not request.name:
        return []
    found = [pod for pod in cache.snapshot().pods if pod.metadata.name == request.name]
    return [
        _answer(pod, request.options)
        for pod in found
        if pod.metadata.namespace in request.options.namespaces and pod.metadata.uid not in rescuer.cases
    ]


def _answer(pod: Pod, options: RescueOptions) -> Case:
    case = Case(pod, since_s=0.0, settles_at_s=0.0)
    if pod.spec.node_name:
        case.end(RESCUED, Reason("bound", f"it is on node {pod.spec.node_name}"))
    elif pod.terminating or pod.terminal:
        case.end(POD_GONE, Reason("pod_gone", "it is being deleted, or has finished"))
    elif not is_critical(pod, options):
        text = f"its priority {effective_priority(pod, options)} is below priority_threshold {options.priority_threshold}"
        case.take(Judgement(pod, IMPOSSIBLE, Reason("not_critical", f"{text}, and it has no annotation that makes it critical")))
    else:
        case.take(Judgement(pod, WAITING, Reason("not_judged_yet", "the scheduler has not said that it finds no node for it")))
    return case


# --- released ---------------------------------------------------------------------------------------------------------


def _release_all(rescuer: Rescuer, cache: WatchCache, lease: RescueLease, request: RescueRequest) -> list[Released]:
    """Give all nodes back; what would be, where nothing is to be changed."""
    snapshot = cache.snapshot()
    rescuer.holds.refresh(snapshot, leading=False)
    held = rescuer.holds.on(snapshot)
    if request.dry_run:
        return [Released(node.name, f"{hold.namespace}/{hold.pod}") for node, hold in held]
    if not held:
        return []
    if not lease.acquire(LEASE_TIMEOUT_S):
        raise RescueError(
            f"{lease.holder} makes room at the moment (Lease kube-system/kube-scheduling-rescue): stop it first, it gives its nodes back"
        )
    try:
        rescuer.give_back_all()
    except LeaseLostError as error:
        raise RescueError(str(error)) from error
    finally:
        lease.release()
    return []
