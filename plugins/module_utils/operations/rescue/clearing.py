# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Clears a node for one pod: ask, hold, evict one pod after the other, each decided on the newest state."""

from __future__ import annotations

import math
import typing as t
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ...kube.cache.informer import ClusterInformer
from ...kube.client.api import KubeApi
from ...kube.client.errors import (
    ApiError,
    BudgetError,
    ConflictError,
    KubeError,
    MultipleBudgetsError,
    NotFoundError,
    ResponseDecodeError,
    is_admission_denial,
    is_permission_error,
    is_transient,
)
from ...model.api.meta import ObjectMeta
from ...model.api.node import Node
from ...model.reason import Reason
from ...model.undecodable import UNDECODABLE
from ...rescue.hold_rule import hold_rule
from ...rescue.options import NONE, RescueOptions
from ...rescue.plan import BY_NOMINATION, BY_TAINT, IMPOSSIBLE, PLANNED, WAITING, Choice, Judgement, Victim
from ...state.hold import Hold, make_hold
from ...state.rescue_attempts import Attempt, attempt_violation, cancel, existing_key, record_failure, record_success, record_victims, start
from .attempts import RescueAttempts
from .case import CLEARING, FAILED, LEFT_ALONE_FOR_S, NO_OTHER_NODE, RESCUED, Case
from .evictions import Evictions, StillAskedError
from .fresh import is_evicted, lost_hold, may_have_been_done, no_longer_waits, read_node, read_pod
from .hold_records import NotRecordedError, TooManyHoldsError
from .holds import Holds, node_of
from .lease import RescueLease
from .nomination import nominate, withdraw
from .nomination_renewal import Nominations
from .rescued_pods import RescuedPods
from .tell import Teller
from .victim_record import record_of, victim_of
from .view import View
from .witness import Witness

REFUSED_FOR_S = 5.0
"""How long a pod is not asked for again after a budget has refused it in a dry run."""
TURNED_DOWN_FOR_S = 60.0
"""The same after a refusal of another kind, such as by a webhook."""
LOOK_AGAIN_S = 0.5
JUDGED_AGAIN_S = 1.0
"""Until a pod is judged again whose node was released for another rescue."""
BARRED_FOR_S = 600.0
"""Until the next try to nominate beside a taint where the role for that is missing."""


class Clearing:
    """The steps of a case that has a plan. Each returns whether it has changed anything, so that the cluster is to be looked at again.

    Raises LeaseLostError, before anything is written, once another program may be at work.
    """

    def __init__(
        self,
        api: KubeApi,
        cache: ClusterInformer,
        options: RescueOptions,
        *,
        lease: RescueLease,
        attempts: RescueAttempts,
        writer: str,
        holds: Holds,
        nominations: Nominations,
        teller: Teller,
        witness: Witness,
        rescued: RescuedPods,
        dry_run: bool,
    ) -> None:
        self._api, self._cache, self._options = api, cache, options
        self._lease, self._attempts, self._holds, self._nominations = lease, attempts, holds, nominations
        self._teller, self._witness = teller, witness
        self._writer, self._rescued, self._dry_run = writer, rescued, dry_run
        self._barred_until_s = 0.0
        self._evictions = Evictions(api)

    def begin(self, case: Case, judgement: Judgement, choice: Choice, view: View) -> bool:
        """Ask for everything by dry runs; then keep the room that will be made, and count the attempt."""
        attempt = self._judged(case, self._entry_of(case), view)
        if self._recall(case, attempt):
            return True
        # A node that is neither cleared nor held any more was left, and the pod does not fit there. One that the taint of somebody else
        # keeps has no hold.
        case.recall_vain(case.last_node if judgement.kept_by is None or view.planner.is_in_use_for(case.uid) else "")
        if choice.node in case.excluded:
            return True
        if case.vain >= self._options.max_attempts:
            return self._end_in_vain(case, "")
        refusal = attempt_violation(attempt, now_s=view.now_s, max_attempts=self._options.max_attempts, pod_uid=case.uid)
        if refusal is not None:
            return self._not_now(case, refusal, view)
        for victim in choice.victims:
            if not self._ask(case, victim, view, dry_run=True):
                return True
        if judgement.kept_by == BY_NOMINATION and not self._may_nominate(case, choice.node, view):
            return True
        case.accepted()
        if not self._dry_run:
            self._lease.check()
        hold = self._hold_for(case, judgement.kept_by, view) if judgement.kept_by is not None else None
        if hold is not None and not self._put(case, choice, hold, view):
            return True
        if self._dry_run:
            view.planner.reserve(judgement)
            case.end(PLANNED, judgement.reason)
            return False
        case.begin(choice.node, hold, give_up_at_s=view.now_at_s + self._options.scheduled_timeout)
        _keep_plan(case, choice, view)
        # From here on the hold is given back by the end of the case, also if this fails.
        self._count(case, choice.victims[0], view)
        self._teller.of_pod(case.pod, "RescueStarted", f"{judgement.reason.text}, because no node has room for it")
        return True

    def advance(self, case: Case, view: View, scheduler: t.Optional[Reason], goes_first: t.Optional[Reason] = None) -> bool:
        """One step further on the node that is being cleared: evict, wait, or give the node up; ``goes_first``: another rescue."""
        if view.now_at_s < case.retry_at_s:
            return False
        judgement = view.planner.judge_on(case.pod, case.node, case.facts(view.now_at_s, scheduler))
        if judgement.status == WAITING:
            case.take(judgement)
            case.note_wait(view.now_at_s)
            if view.now_at_s > case.give_up_at_s:
                return self._give_up(case)
            self._nominate(case, view)
            return False
        if view.now_at_s > case.give_up_at_s + self._options.evict_timeout:
            return self._not_cleared(case)
        if judgement.status == IMPOSSIBLE or judgement.choice is None:
            return self._leave(case, judgement.reason, view)
        case.take(judgement)
        more = _more_than_planned(case, judgement.choice, view)
        if more is not None:
            return self._leave(case, more, view)
        if goes_first is not None and case.hold is not None and case.hold.nominates:
            return self._leave_for_now(case, judgement, goes_first, view)
        if judgement.kept_by == BY_TAINT and (case.hold is None or case.hold.nominates):
            return self._leave(case, Reason("not_kept", "the taint that kept others off has been removed"), view)
        if goes_first is not None:
            case.take(replace(judgement, reason=goes_first))
            return False  # the node stays kept, and nothing may make the scheduler try the other pod meanwhile
        self._lease.check()
        if not self._nominate(case, view):
            refused = Reason("not_kept", "the pod could not be nominated for it")
            return self._leave(case, refused, view) if view.now_at_s > case.give_up_at_s else False
        if view.now_at_s < case.settles_at_s:
            return False  # a node has opened: the scheduler may place the pod there
        victim = judgement.choice.victims[0]
        if not case.changed or victim.pod.metadata.uid not in case.recorded:
            self._count(case, victim, view)
        if self._is_confirmed(case, victim, view):
            self._lease.check()
            self._ask(case, victim, view, dry_run=False)
        return True

    def resume(self, case: Case, view: View) -> bool:
        """Hold the node again on which pods still end that another program has evicted for the case, and that it has released at its end.

        Without that, a replacement of such a pod could take the capacity before the scheduler tries the critical pod again.
        """
        attempt = self._entry_of(case)
        self._recall(case, attempt)
        if attempt is None or case.uid not in attempt.under_way:
            return False
        self.resolve(case, view)
        ending = {pod.metadata.uid for pod in view.snapshot.pods if pod.terminating}
        victims = [victim for victim in case.evicted if victim.pod.metadata.uid in ending]
        node = view.snapshot.nodes.get(victims[-1].pod.spec.node_name) if victims else None
        kept_by = hold_rule(case.pod, node, victims, self._options).kept_by if node is not None else None
        if node is None or kept_by is None or node.name in case.excluded:
            return False
        self._lease.check()
        hold = self._hold_for(case, kept_by, view)
        self._holds.put(node, hold)
        case.begin(node.name, hold, give_up_at_s=view.now_at_s + self._options.scheduled_timeout)
        case.changed = True
        self._witness.held(case)
        return True

    def resolve(self, case: Case, view: View) -> bool:
        """Find out what has been evicted for the pod, where that is not known; whether the case has changed by that."""
        if case.stage == CLEARING and not case.recalled:
            self._recall(case, self._entry_of(case))
        found = False
        for uid, victim in list(case.unclear.items()):
            if self._evictions.is_asked(uid):
                case.retry_at_s = view.now_at_s + LOOK_AGAIN_S
                continue
            found = True
            now = read_pod(self._api, victim.pod)
            if is_evicted(now):
                deletion_timestamp = now.metadata.deletion_timestamp if now is not None else None
                self._note(case, victim, view, deletion_timestamp=deletion_timestamp, own=uid in case.recorded)
                case.accepted()
            del case.unclear[uid]
        if found and not case.unclear:
            case.recall_vain(case.last_node)
        return found

    @property
    def evicting(self) -> bool:
        """The API server may still carry out an eviction."""
        return self._evictions.are_open

    def release(self, case: Case, nodes: Mapping[str, Node]) -> bool:
        """Give the case's node back, if it is held; false where that could not be written yet."""
        if case.hold is None:
            self._withdraw(case)
            return True
        self._lease.check()
        node = node_of(case.node, nodes)
        if not self._holds.give_back(node, case.hold, waits=not (case.gone or case.pod.spec.node_name)):
            return False
        case.hold, case.nominated_at = None, ""
        return True

    def _withdraw(self, case: Case) -> None:
        """Take the nomination away that was made beside the taint of somebody else: there is no hold to which it belongs."""
        nominated, case.nominated_at = case.nominated_at, ""
        if not nominated or not case.node or case.gone or case.pod.spec.node_name:
            return
        self._lease.check()
        try:
            withdraw(self._api, case.pod.metadata, case.node)
        except KubeError as error:
            # The scheduler takes it away after its next try.
            self._witness.troubled(f"pod {case.name} is still nominated for node {case.node}: {error}")

    def settle(self, case: Case, view: View) -> None:
        """Write down what came of the attempt."""
        pending = {pod.metadata.uid for pod in view.snapshot.pods if not pod.spec.node_name}

        def change(entry: t.Optional[Attempt]) -> t.Optional[Attempt]:
            if case.status == RESCUED:
                return record_success(entry, now_s=view.now_s, pod_uid=case.uid, name=case.name, pending=pending)
            if case.status != FAILED and not case.evicted:
                return cancel(entry, now_s=view.now_s, pod_uid=case.uid)
            return record_failure(entry, now_s=view.now_s, pod_uid=case.uid, name=case.name)

        self._rescued.note(case.key, self._attempts.update(case.key, change))

    # --- steps ---

    def _entry_of(self, case: Case) -> t.Optional[Attempt]:
        entries = self._attempts.read()
        case.key = existing_key(entries, case.uid, case.key)
        return entries.get(case.key)

    def _hold_for(self, case: Case, kept_by: str, view: View) -> Hold:
        deadline_s = view.now_s + self._options.scheduled_timeout + self._options.evict_timeout
        key = self._options.hold_taint_key if kept_by == BY_TAINT else ""
        return make_hold(case.pod, key=key, deadline_s=deadline_s, writer=self._writer)

    def _count(self, case: Case, victim: Victim, view: View) -> None:
        """Write down that the rescue is under way, what has been evicted for it, and what is evicted next."""
        uid = victim.pod.metadata.uid
        victims = [*case.evicted, *(one for known, one in case.unclear.items() if known != uid), victim]
        records = [record_of(one) for one in victims]

        def change(entry: t.Optional[Attempt]) -> Attempt:
            entry = start(entry, now_s=view.now_s, pod_uid=case.uid, name=case.name)
            return record_victims(entry, pod_uid=case.uid, victims=records)

        self._attempts.update(case.key, change)
        case.changed, case.recorded = True, frozenset(one.pod.metadata.uid for one in victims)

    def _judged(self, case: Case, attempt: t.Optional[Attempt], view: View) -> t.Optional[Attempt]:
        """The entry with what has become of the pods that were rescued before."""
        found = self._rescued.judged(case.key, attempt, view.snapshot, view.now_s)
        if found != attempt and not self._dry_run:
            self._lease.check()
            self._rescued.note(case.key, attempt)
            self._rescued.check(view.snapshot, view.now_s)
        return found

    def _recall(self, case: Case, attempt: t.Optional[Attempt]) -> bool:
        """What another program has evicted for the pod counts, too; whether there may be something."""
        if case.recalled:
            return False
        case.recalled = True
        if attempt is not None and case.uid in attempt.under_way and not self._dry_run:
            case.changed = True  # it is under way, and has to be settled
        known = {victim.pod.metadata.uid for victim in case.evicted}
        records = attempt.victims.get(case.uid, ()) if attempt is not None else ()
        case.unclear.update({record.uid: victim_of(record) for record in records if record.uid not in known})
        return bool(case.unclear)

    def _is_confirmed(self, case: Case, victim: Victim, view: View) -> bool:
        """The API server says that the pod still waits, the victim may go, and the node is open and kept. Otherwise that is acted upon."""
        uid = victim.pod.metadata.uid
        try:
            waits, there, node = read_pod(self._api, case.pod), read_pod(self._api, victim.pod), read_node(self._api, case.node)
        except ResponseDecodeError as error:
            self._leave(case, Reason(UNDECODABLE, str(error)), view)
            return False
        gone = no_longer_waits(waits, case.pod, case.node)
        if gone is not None:
            self._witness.troubled(f"{case.name}: {gone}; the watch is behind")
            case.retry_at_s = view.now_at_s + LOOK_AGAIN_S
            return False
        if there is None or there.terminating:
            self._cache.assume_terminating(uid, there.metadata.deletion_timestamp or "" if there is not None else "")
            return False
        if node is None:
            self._leave(case, Reason("node_gone", f"node {case.node} is gone"), view)
            return False
        immune, closed = view.planner.objections(waits or case.pod, there, node, case.facts(view.now_at_s))
        closed = closed or lost_hold(node, case.hold)
        if closed is not None:
            self._leave(case, closed, view)
        elif immune is not None or there.spec.node_name != case.node:
            case.banned[uid] = view.now_at_s + REFUSED_FOR_S
        return closed is None and immune is None and there.spec.node_name == case.node

    def _put(self, case: Case, choice: Choice, hold: Hold, view: View) -> bool:
        try:
            self._holds.put(view.snapshot.nodes[choice.node], hold, dry_run=self._dry_run)
        except TooManyHoldsError as error:
            return self._not_now(case, Reason("too_many_holds", str(error)), view)
        except NotRecordedError as error:
            case.end(FAILED, Reason("error", str(error)))
            return False
        except KubeError as error:
            if is_permission_error(error) or is_transient(error):
                raise
            # Somebody else's hold, or a refusal that is about this node: there may be another one.
            self._witness.troubled(f"{case.name}: {error}")
            case.excluded[choice.node] = view.now_at_s + LEFT_ALONE_FOR_S
            case.judge_at_s = view.now_at_s + LOOK_AGAIN_S
            return False
        if self._dry_run:
            return True
        self._teller.of_node(view.snapshot.nodes[choice.node], "RescueHold", f"held for critical pod {case.name}")
        self._witness.held(case)
        return True

    def _may_nominate(self, case: Case, node_name: str, view: View) -> bool:
        """Ask before anything is touched."""
        try:
            if case.pod.status.nominated_node_name or nominate(self._api, case.pod, node_name, dry_run=True):
                return True
        except KubeError as error:
            if is_permission_error(error) or is_transient(error):
                raise
            if not isinstance(error, ConflictError):
                case.end(FAILED, Reason("error", str(error)))
                return False
        case.judge_at_s = view.now_at_s + LOOK_AGAIN_S  # somebody else writes to the pod; the watch will tell
        return False

    def _nominate(self, case: Case, view: View) -> bool:
        """Nominate the pod for the held node, and again when the scheduler has cleared the nomination.

        False where no taint keeps the node and the pod could not be nominated yet. Without a hold, the taint of somebody else keeps it. A
        nomination that the scheduler itself has made for another node, where its victims hang, stays: without it the scheduler would
        preempt once more.
        """
        pod = case.pod
        tainted = case.hold is None or not case.hold.nominates
        if pod.status.nominated_node_name:
            return True
        if tainted and view.now_at_s < self._barred_until_s:
            return True
        version = pod.metadata.resource_version
        if version == case.nominated_at:
            return True  # the watch does not show it yet
        self._lease.check()
        try:
            # Of several pods that are nominated together each failed attempt at one makes the scheduler try the others: no hurry there.
            alone = not tainted and self._options.hold != NONE
            if self._nominations.nominate(pod, case.node) if alone else nominate(self._api, pod, case.node):
                case.nominated_at = version
                return True
        except KubeError as error:
            if tainted and is_permission_error(error):
                self._go_without(error, view)
                return True
            self._witness.troubled(f"{case.name}: it is not nominated for node {case.node}: {error}")
        if tainted:
            return True  # the taint keeps the node; the next look tries again
        case.retry_at_s = view.now_at_s + LOOK_AGAIN_S
        return False

    def _go_without(self, error: KubeError, view: View) -> None:
        """Beside a taint a nomination is not necessary: say once that the role is missing, and try again later."""
        if not self._barred_until_s:
            text = "pods are not nominated beside the taint, so that pods that tolerate it can take the capacity that becomes free in parts"
            self._witness.troubled(f"{text}: {error}")
        self._barred_until_s = view.now_at_s + BARRED_FOR_S

    def _not_now(self, case: Case, refusal: Reason, view: View) -> bool:
        case.take(Judgement(case.pod, IMPOSSIBLE if refusal.code == "attempts_used_up" else WAITING, refusal))
        case.judge_at_s = view.now_at_s + REFUSED_FOR_S
        return False

    def _give_up(self, case: Case) -> bool:
        waited = f"the scheduler has not bound it to node {case.node} within {self._options.scheduled_timeout} s"
        case.end(FAILED, Reason("not_bound", f"{waited}, although there is room"))
        return True

    def _not_cleared(self, case: Case) -> bool:
        """Nothing is held beyond its deadline, whatever keeps the evictions from being made."""
        within_s = self._options.scheduled_timeout + self._options.evict_timeout
        case.end(FAILED, Reason("not_cleared", f"node {case.node} could not be cleared within {within_s} s"))
        return True

    def _leave(self, case: Case, why: Reason, view: View) -> bool:
        self._witness.troubled(f"node {case.node} is no longer cleared for pod {case.name}: {why}")
        if not self.release(case, view.snapshot.nodes):
            case.pause(view.now_at_s)
            if view.now_at_s > case.give_up_at_s:
                case.end(FAILED, why)
            return case.has_ended
        case.leave_node(view.now_at_s)
        case.accepted()
        if case.vain >= self._options.max_attempts:
            self._end_in_vain(case, f"; the last: {why}")
        return True

    def _leave_for_now(self, case: Case, judgement: Judgement, goes_first: Reason, view: View) -> bool:
        """Release the node until another rescue has ended. It may be cleared for the pod again."""
        if not self.release(case, view.snapshot.nodes):
            case.pause(view.now_at_s)
            return False
        case.watch_again(view.now_at_s + JUDGED_AGAIN_S)
        case.take(replace(judgement, status=WAITING, reason=goes_first))
        case.accepted()
        return True

    def _end_in_vain(self, case: Case, last: str) -> bool:
        case.end(FAILED, Reason(NO_OTHER_NODE, f"pods were evicted without effect on {case.vain} nodes{last}"))
        return True

    # --- the server's answers ---

    def _ask(self, case: Case, victim: Victim, view: View, *, dry_run: bool) -> bool:
        """Ask for the eviction, or whether it would be granted; false where it was not."""
        try:
            self._evictions.evict(victim, dry_run=dry_run)
        except KubeError as error:
            if not dry_run and may_have_been_done(error):
                case.unclear[victim.pod.metadata.uid] = victim
            self._refused(case, victim, error, view, dry_run=dry_run)
            return False
        if not dry_run:
            self._note(case, victim, view)
            case.accepted()
        return True

    def _note(self, case: Case, victim: Victim, view: View, *, deletion_timestamp: t.Optional[str] = None, own: bool = True) -> None:
        """The pod has been evicted for the case; what another program has evicted is neither counted nor told again."""
        self._cache.assume_terminating(victim.pod.metadata.uid, deletion_timestamp or "")
        case.evicted.append(victim)
        case.ends_at_s[victim.pod.metadata.uid] = view.now_at_s + victim.grace_period
        if not own:
            return
        self._witness.evicted(case, victim)
        metadata, node = victim.pod.metadata, victim.pod.spec.node_name  # the case may have left it by now
        self._teller.of_pod(victim.pod, "EvictedForCriticalPod", f"evicted from node {node} to make room for critical pod {case.name}")
        self._teller.of_pod(case.pod, "RescueEviction", f"evicted pod {metadata.namespace}/{metadata.name} from node {node} for it")

    def _refused(self, case: Case, victim: Victim, error: KubeError, view: View, *, dry_run: bool) -> None:
        uid, now_at_s = victim.pod.metadata.uid, view.now_at_s
        if is_permission_error(error):
            case.end(FAILED, Reason("error", str(error)))
        elif isinstance(error, MultipleBudgetsError):
            case.banned[uid] = math.inf
        elif is_admission_denial(error):
            self._turned_down(case, uid, error, view)
        elif isinstance(error, (NotFoundError, ConflictError)):
            self._missed(case, victim, error, view)
        elif isinstance(error, BudgetError) and dry_run:
            case.banned[uid] = now_at_s + REFUSED_FOR_S
        elif is_transient(error):
            self._ask_later(case, uid, error, view)
        else:
            self._turned_down(case, uid, error, view)

    def _turned_down(self, case: Case, uid: str, error: KubeError, view: View) -> None:
        self._witness.troubled(f"{case.name}: {error}")
        case.banned[uid] = view.now_at_s + TURNED_DOWN_FOR_S

    def _missed(self, case: Case, victim: Victim, error: KubeError, view: View) -> None:
        """404 or 409: the pod is gone or terminating, and its capacity becomes free; or only its budget was being written or deleted."""
        now = read_pod(self._api, victim.pod)
        if now is None or now.terminating:
            deletion_timestamp = now.metadata.deletion_timestamp if now is not None else None
            self._cache.assume_terminating(victim.pod.metadata.uid, deletion_timestamp or "")
        else:
            self._ask_later(case, victim.pod.metadata.uid, error, view)

    def _ask_later(self, case: Case, uid: str, error: KubeError, view: View) -> None:
        if isinstance(error, StillAskedError):  # no refusal: the answer comes
            case.retry_at_s = case.judge_at_s = view.now_at_s + LOOK_AGAIN_S
            return
        is_first = case.refused_at_s is None and uid in case.unclear  # it may have been carried out, which is found out first
        if is_first or case.refused_for(view.now_at_s) < self._options.evict_timeout:
            case.pause(view.now_at_s, error.retry_after_s if isinstance(error, ApiError) else None)
            case.judge_at_s = case.retry_at_s
            return
        self._witness.troubled(f"{case.name}: {error}")
        if case.node:
            self._leave(case, Reason("evict_timeout", f"refused for {self._options.evict_timeout} s: {error}"), view)
        else:
            case.banned[uid] = view.now_at_s + TURNED_DOWN_FOR_S
            case.accepted()


def _keep_plan(case: Case, choice: Choice, view: View) -> None:
    """The pods of this plan may be evicted on the node, and no further ones."""
    case.there = frozenset(pod.metadata.uid for pod in view.snapshot.pods_by_node.get(case.node, ()))
    case.plan = frozenset(victim.pod.metadata.uid for victim in choice.victims)


def _more_than_planned(case: Case, choice: Choice, view: View) -> t.Optional[Reason]:
    """Why the node is left, because more pods than planned would have to be evicted there; None where it is not so.

    A planned pod that may not be evicted any more can be replaced by another one. Their number does not grow. Where pods that came since
    need the capacity, no other pod is evicted instead of them, nor are they: that could go on until the node is empty.
    """
    if case.there is None:
        _keep_plan(case, choice, view)
        return None
    wanted = {victim.pod.metadata.uid: victim.pod.metadata for victim in choice.victims}
    further = sorted(uid for uid in wanted if uid not in case.plan)
    if not further:
        return None
    staying = [pod.metadata for pod in view.snapshot.pods_by_node.get(case.node, ()) if not (pod.terminating or pod.terminal)]
    came = [metadata for metadata in staying if metadata.uid not in case.there and metadata.uid != case.uid]
    if came:
        return Reason("room_taken", f"the capacity that was freed there was taken by {_names(came)}")
    replaced = sorted(metadata.uid for metadata in staying if metadata.uid in case.plan and metadata.uid not in wanted)
    if len(further) > len(replaced):
        text = f"{_names(wanted[uid] for uid in further)} would have to be evicted there beyond the plan"
        return Reason("more_than_planned", text)
    case.plan = case.plan.difference(replaced[: len(further)]).union(further)
    return None


def _names(pods: Iterable[ObjectMeta]) -> str:
    return ", ".join(f"{metadata.namespace}/{metadata.name}" for metadata in pods)
