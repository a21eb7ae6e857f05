# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Makes room for critical pods: looks, plans, holds, evicts one pod after the other, waits until the scheduler has bound them.

Nothing here waits by itself: ``tick`` does what can be done now, and says when it wants to be called again. The module and the daemon
both drive it. What it leaves behind when it is killed is on the nodes, and is taken over or given back by whoever comes next.
"""

from __future__ import annotations

import math
import time
import typing as t
from dataclasses import replace

from ...kube.cache.informer import REQUIRED_RESOURCES, ClusterInformer
from ...kube.client.api import KubeApi
from ...kube.client.errors import ConflictError, KubeError, UnreachableError, is_permission_error, is_transient
from ...model.api.node import Node
from ...model.api.pod import Pod
from ...model.gc_pause import gc_paused
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...model.undecodable import undecodable_of
from ...rescue.critical import NOT_CRITICAL, effective_priority, is_critical, is_unschedulable, why_not_critical
from ...rescue.leaving import longest_wait_s
from ...rescue.openings import changed_nodes, has_opened
from ...rescue.options import NONE, RescueOptions
from ...rescue.plan import BY_NOMINATION, IMPOSSIBLE, PLANNED, WAITING, Judgement
from ...rescue.planner import NO_NODE, ROOM_BECOMING_FREE, UNEXPLAINED, Facts, RescuePlanner
from ...state.hold import Hold
from .alike import alike, depends_on_others
from .attempts import RescueAttempts
from .case import CLEARING, ENDED, FAILED, NO_OTHER_NODE, OTHER_RESCUE, POD_GONE, RESCUED, SETTLING, WATCHED, Case
from .clearing import Clearing
from .evictions import ENDS_WITHIN_S
from .holds import Holds
from .lease import LeaseLostError, RescueLease
from .leftovers import settle_leftovers
from .nomination_renewal import Nominations
from .rescued_pods import RescuedPods
from .scheduler_life import SchedulerLife
from .tell import Teller
from .view import View
from .witness import Witness

IDLE_S = 10.0
"""The longest time between two looks by default: deadlines and ends of grace periods come without a change that a watch would tell."""
JUDGED_AGAIN_S: t.Mapping[str, float] = {WAITING: 1.0, IMPOSSIBLE: 5.0}
TROUBLED_FOR_S = 2.0
SEEN_LIVE_S = 2.0
CLOCKS_DIFFER_S = 60.0
"""The most by which the clocks of the scheduler and of the API servers are expected to differ."""
OTHER_RESCUER = "other_rescuer"
AT_WORK_S = 1.0
"""As IDLE_S, while a node is being cleared."""
BLIND_S = 1.0
"""Until the next look where the watches are broken."""
SLICE_S = 0.2
"""After so long a time no further judgement begins on the same view."""
STILL_EVICTING_S = 0.05
"""Until the next look whether an eviction has ended, at the end of the program."""
EXPLAINED_EVERY_S = 2.0
"""Where some pod is due to be judged all the time, reasons are worked out for one pod in so many seconds."""
MOST_STEPS = 50
"""After so many the one who drives this gets a word in, whatever goes round in circles."""
MOST_NAMED = 5
"""Of pods in one message."""
REFUSALS = {"attempts_used_up": "RescueAttemptsUsedUp", "backoff": "RescueBackoff"}
"""The Events about them, by the reason's code."""


RETRY_FOR_S, ANSWER_TIMEOUT_S = 5.0, ENDS_WITHIN_S
WRITE_WITHIN_S = 5.0
"""The loop waits for a write to a node, a pod's status or the ConfigMap: a slow admission webhook must not keep it for long.

The requests for the Lease have no more time, so that a server that needs longer has no leader anyway.
"""


def in_time(api: KubeApi, lease: RescueLease) -> KubeApi:
    """The API for rescues: what is not answered soon is tried again on a newer state. Every write ends before the Lease can be lost."""
    return api.with_timeouts(
        retry_for_s=RETRY_FOR_S, answer_timeout_s=ANSWER_TIMEOUT_S, until=lease.ends_at_s, write_within_s=WRITE_WITHIN_S
    )


def waited_s(since_s: float, now_s: float) -> float:
    """Seconds since the scheduler has given a pod up.

    The condition's time is a whole second: of what has just been marked it would make the wait too long, so that it counts as none.
    """
    seconds = now_s - since_s
    return seconds if seconds > SEEN_LIVE_S else 0.0


class Rescuer:
    """The cases of one program.

    ``selected`` bounds which critical pods are its business. With ``dry_run`` plans are made and asked for, and nothing is changed. With
    ``once`` a case that has ended stays so; otherwise its pod is looked at again after a while. ``idle_s``: the longest time between two
    looks. ``accepting``: new nodes are cleared.
    ``hindrance``: why the last ``tick`` could not do its work; empty where it could.
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
        witness: t.Optional[Witness] = None,
        selected: t.Callable[[Pod], bool] = lambda _pod: True,
        dry_run: bool = False,
        once: bool = True,
        idle_s: float = IDLE_S,
    ) -> None:
        self.cases: dict[str, Case] = {}
        self.accepting = True
        self.hindrance = ""
        self._api, self._cache, self._options = api, cache, options
        self._lease, self._selected, self._writer = lease, selected, writer
        self._witness = witness or Witness()
        self._dry_run, self._once, self._idle_s = dry_run, once, idle_s
        self._life = SchedulerLife(api, cache)
        self._teller = Teller(api, self._witness, options.namespaces)
        self.nominations = Nominations(api, cache, lease)
        self.holds = Holds(api, self._teller, self._witness, options, self.nominations)
        self._rescued = RescuedPods(api, cache, attempts)
        self._clearing = Clearing(
            api,
            cache,
            options,
            lease=lease,
            attempts=attempts,
            holds=self.holds,
            nominations=self.nominations,
            teller=self._teller,
            witness=self._witness,
            writer=writer,
            rescued=self._rescued,
            dry_run=dry_run,
        )
        self._planner: t.Optional[RescuePlanner] = None
        self._look_s = 0.0
        self._seen: t.Optional[ClusterSnapshot] = None
        self._records = attempts
        self._records_checked = False
        self._check_records_at_s = 0.0
        self._round = 0
        self._interrupted = False
        self._explained_at_s = 0.0

    def tick(self) -> float:
        """Do what can be done now; the seconds until something may have to be done without a change in the cluster."""
        blind = self.blind
        if blind:
            self.hindrance = "; ".join(blind)
            for text in blind:
                self._witness.troubled(text)
            return BLIND_S
        try:
            self.holds.refresh(self._cache.snapshot(), leading=self._lease.held)
        except KubeError as error:
            if not is_transient(error):
                raise
            self.hindrance = str(error)
            self._witness.troubled(self.hindrance)
            return BLIND_S
        self.hindrance = ""
        with gc_paused():
            view = self._look()
            self._check_records(view)
            self._interrupted = False
            self._begin_round(view)
            try:
                for _step in range(MOST_STEPS):
                    if not self._one_step(view) and not self._explain(view):
                        break
                    view = self._look()
            except LeaseLostError as error:
                self._witness.troubled(str(error))
                self.let_go()
        return 0.0 if self._interrupted else self._rest_s(view)

    @property
    def blind(self) -> list[str]:
        """What is not followed at the moment, of what nothing can be decided without: the state of before may be wrong by now."""
        errors = self._cache.errors
        broken = [f"{resource.plural}: {errors[resource.plural]}" for resource in REQUIRED_RESOURCES if resource.plural in errors]
        silent = self._cache.silent
        quiet = [resource.plural for resource in REQUIRED_RESOURCES if resource.plural in silent and resource.plural not in errors]
        return [*broken, *(f"{plural}: the API server has said nothing for {silent[plural]:.0f} s" for plural in quiet)]

    def give_back_all(self) -> None:
        """Give back every node that this program holds; nothing is left behind. Raises LeaseLostError and KubeError."""
        self._lease.check()
        snapshot = self._cache.snapshot()
        self.holds.refresh(snapshot, leading=True)
        for node, hold in self.holds.on(snapshot):
            self.holds.give_back(node, hold)
        for case in self.cases.values():
            case.hold = None

    def let_go_of_nodes(self) -> None:
        """Release the nodes that this program holds, as they were last seen. The cases stay as they are. Raises LeaseLostError."""
        if self._seen is None:
            return
        for case in self.cases.values():
            self._clearing.release(case, self._seen.nodes)
        for node, hold in self._own_marks():
            self._lease.check()
            self.holds.give_back(node, hold)

    @property
    def still_held(self) -> dict[str, Hold]:
        """The holds of this program that are still on their nodes as far as it knows, by the name of the node."""
        cleared = {case.node: case.hold for case in self._of(CLEARING) if case.hold is not None}
        ended = {case.node: case.hold for case in self._of(ENDED) if case.hold is not None}
        return {**{node.name: hold for node, hold in self._own_marks()}, **ended, **cleared}

    @property
    def unsettled(self) -> list[Case]:
        """The cases that have ended and whose result this program still has to write."""
        return [case for case in self.cases.values() if self._owes(case)]

    def marks(self) -> list[tuple[Node, Hold]]:
        """Every node with a hold, whoever holds it, as last seen."""
        return self.holds.on(self._seen) if self._seen is not None else []

    def _own_marks(self) -> list[tuple[Node, Hold]]:
        """The marks that this program has set or taken over."""
        taken_over = {case.uid for case in self.cases.values() if case.changed}
        return [(node, hold) for node, hold in self.marks() if hold.writer == self._writer or hold.uid in taken_over]

    def let_go(self) -> None:
        """Another program may be at work: what is held stays so for whoever has the Lease, who takes it over."""
        self.nominations.drop_all()
        for case in self._of(CLEARING):
            case.stage, case.node, case.hold, case.recalled = WATCHED, "", None, False  # it may evict further pods

    @property
    def evicting(self) -> bool:
        """The API server may still carry out an eviction that this program has asked for."""
        return self._clearing.evicting

    def finish_evictions(self, timeout_s: float, *, hurried: t.Callable[[], bool] = lambda: False) -> bool:
        """Wait until no eviction can be carried out any more, and note what was evicted; false where that takes too long.

        It is the end: no further node is cleared.
        """
        self.accepting = False
        end_at_s = time.monotonic() + timeout_s
        while self.evicting:
            if hurried() or time.monotonic() > end_at_s:
                return False
            time.sleep(STILL_EVICTING_S)
        try:
            unclear = [case for case in self.cases.values() if case.unclear]
            if unclear:
                view = self._look()
                for case in unclear:
                    self._clearing.resolve(case, view)
        except (KubeError, LeaseLostError) as error:
            self._witness.troubled(f"it is not known which pods were evicted at the end: {error}")
        return True

    def settle_open(self) -> None:
        """Write the results of the attempts whose pods still wait. It is the end, and no node is being cleared for them any more.

        Those for which pods were evicted have failed.
        """
        open_cases = [case for case in self._of(WATCHED) if case.changed and not case.settled]
        if not open_cases or self._dry_run or not self._lease.held:
            return
        try:
            view = self._look()
            for case in open_cases:
                self._lease.check()
                self._clearing.settle(case, view)
                case.settled = True
        except (KubeError, LeaseLostError) as error:
            self._witness.troubled(f"results of attempts are not written at the end: {error}")

    @property
    def at_work(self) -> bool:
        """Some node is being cleared."""
        return any(case.stage == CLEARING for case in self.cases.values())

    # --- looking ---

    def _look(self) -> View:
        now_s, now_at_s = self._api.now_s(), time.monotonic()
        snapshot = self._cache.snapshot()
        changes = changed_nodes(self._seen.nodes, snapshot.nodes) if self._seen is not None else []
        self._seen = snapshot
        self._see(snapshot.pods, now_s, now_at_s)
        for case in self.cases.values() if changes else ():
            if not case.has_ended and has_opened(case.pod, changes):
                case.settle_again(now_at_s, self._options.settle_time)
        in_use = {case.node: case.uid for case in self.cases.values() if case.stage == CLEARING}
        held = {node.name: hold for node, hold in self.holds.on(snapshot)}
        evicted = {uid: at_s - now_at_s for case in self.cases.values() for uid, at_s in case.ends_at_s.items()}
        self._planner = RescuePlanner(
            snapshot, self._options, now_s=now_s, in_use=in_use, held=held, evicted=evicted, earlier=self._planner
        )
        for case in self.cases.values() if self._dry_run else ():
            if case.status == PLANNED and case.has_ended and case.judgement is not None and not self._planner.reserve(case.judgement):
                case.stage, case.status, case.judge_at_s = WATCHED, "", 0.0  # what it was planned with is no longer there
        view = View(snapshot, self._planner, now_s, now_at_s, {})
        self._look_s = time.monotonic() - now_at_s
        self.holds.tidy(snapshot, self.cases, now_s=now_s, now_at_s=now_at_s, may_write=self._may_write)
        return view

    def _see(self, pods: t.Iterable[Pod], now_s: float, now_at_s: float) -> None:
        found: dict[str, Pod] = {}
        for pod in pods:
            uid = pod.metadata.uid
            if uid in self.cases:
                found[uid] = pod
            elif not pod.spec.node_name and self._is_ours(pod):
                self._open(pod, now_s, now_at_s)
                found[uid] = pod
        for case in self.cases.values():
            pod_now = found.get(case.uid)
            case.gone = pod_now is None
            nominated = pod_now.status.nominated_node_name if pod_now is not None else ""
            if nominated not in ("", case.node, case.pod.status.nominated_node_name):
                case.settle_again(now_at_s, self._options.settle_time)  # the scheduler preempts, and its victims may not show yet
            case.pod = pod_now or case.pod

    def _is_ours(self, pod: Pod) -> bool:
        if pod.metadata.namespace not in self._options.namespaces or not is_unschedulable(pod):
            return False
        return is_critical(pod, self._options) and self._selected(pod)

    def _open(self, pod: Pod, now_s: float, now_at_s: float) -> None:
        since_s = self._cache.unschedulable_since(pod.metadata.uid) or now_s
        # One clock has written the time, and another one tells the time now: a short wait is measured here.
        waited = waited_s(since_s, now_s) > self._options.settle_time + CLOCKS_DIFFER_S
        settles_at_s = now_at_s if waited else now_at_s + self._options.settle_time
        patience_s = longest_wait_s(self._options.grace_period)
        self.cases[pod.metadata.uid] = Case(pod, since_s=since_s, settles_at_s=settles_at_s, patience_s=patience_s)

    # --- acting ---

    def _one_step(self, view: View) -> bool:
        """Let the most important case that can do something do it; whether the cluster has to be looked at again."""
        leading = self._lease.held
        for case in self._in_order():
            try:
                changed = self._step(case, view)
            except KubeError as error:
                changed = self._troubled(case, error, view)
                if leading:
                    self._lease.check()
                elif isinstance(error, UnreachableError):
                    return False  # nothing can be done for the others either, and whoever drives this has to know soon
            if changed:
                return True
        return False

    def _in_order(self) -> list[Case]:
        """What is under way first, so that it is not disturbed, then what was judged longest ago, and then by importance and age.

        Of pods that are equally important those come first whose judgement takes the least time.
        """

        def rank(case: Case) -> tuple[bool, int, int, bool, float, str]:
            judged_in, importance = case.round if case.stage == WATCHED else 0, effective_priority(case.pod, self._options)
            return case.stage != CLEARING, judged_in, -importance, depends_on_others(case.pod), case.since_s, case.name

        return sorted(self.cases.values(), key=rank)

    def _begin_round(self, view: View) -> None:
        """A new round begins when every pod that is due was judged in this one: no pod is judged twice before another one is."""
        due = [case for case in self._of(WATCHED) if view.now_at_s >= case.judge_at_s]
        if all(case.round >= self._round for case in due):
            self._round += 1

    def _step(self, case: Case, view: View) -> bool:
        if case.has_ended:
            self._make_up(case, view)
            return self._forget(case, view)
        if case.unclear or (case.stage == CLEARING and not case.recalled):
            if view.now_at_s < case.retry_at_s:
                return False
            if self._clearing.resolve(case, view):
                return True
            if case.unclear:
                return False  # an eviction is on its way
        end = _end_of(case, leading=self._lease.held) or self._no_longer_critical(case)
        if end is not None:
            case.end(*end)
            return self._conclude(case, view)
        if case.stage == CLEARING:
            scheduler = self._life.reason_to_wait(case.pod, case.since_s, view.snapshot)
            kept_by = BY_NOMINATION if case.hold is not None and case.hold.nominates else None
            changed = self._clearing.advance(case, view, scheduler, self._goes_first(case, kept_by, view))
        else:
            changed = view.now_at_s >= case.judge_at_s and self._judge(case, view)
        # Its step may have ended it.
        return self._conclude(case, view) if case.has_ended else changed

    def _no_longer_critical(self, case: Case) -> t.Optional[tuple[str, Reason]]:
        """Somebody has taken the annotation away that made the pod critical. Of an undecodable pod that is not known."""
        if undecodable_of(case.pod) is not None or is_critical(case.pod, self._options):
            return None
        return IMPOSSIBLE, Reason(NOT_CRITICAL, why_not_critical(case.pod, self._options))

    def _explain(self, view: View) -> bool:
        """Work out why no eviction helps, for pods of which that is still to be said; whether the cluster has to be looked at again.

        That takes longer than a judgement. All pods that are due are judged first, so that a possible rescue does not wait. Where some are
        due all the time, one pod is explained now and then, and none before all were judged once.
        """
        waiting = self._of(WATCHED)
        overdue = time.monotonic() > self._explained_at_s + EXPLAINED_EVERY_S and all(case.round >= 0 for case in waiting)
        if self._interrupted and not overdue:
            return False
        # Reasons that are only to be renewed come last.
        for case in sorted(self._in_order(), key=lambda case: case.reason is not UNEXPLAINED):
            if not case.unexplained or case.stage != WATCHED:
                continue
            if not overdue and _is_old(view):
                self._interrupted = True
                break
            leading = self._lease.held
            try:
                changed = self._judge(case, view, explain=True)
            except KubeError as error:
                changed = self._troubled(case, error, view)
                if leading:
                    self._lease.check()
            if changed:
                return True
            self._explained_at_s, overdue = time.monotonic(), False
        return False

    def _judge(self, case: Case, view: View, *, explain: bool = False) -> bool:
        scheduler = self._life.reason_to_wait(case.pod, case.since_s, view.snapshot)
        began_at_s = time.monotonic()
        # After an eviction for it the pod may be given up, which takes the newest reasons.
        judgement = self._judgement(case, view, case.facts(view.now_at_s, scheduler), explain=explain or bool(case.evicted))
        if judgement is None:
            self._interrupted = True
            return False
        explained, unexplained = case.explained, judgement.reason is UNEXPLAINED
        if unexplained and explained is not None:
            judgement = replace(explained, pod=case.pod)
        case.round = self._round
        self._witness.planned(case, self._look_s + time.monotonic() - began_at_s)
        judgement = self._unless_settling(case, judgement, view)
        # The result of a run that ends has the newest reasons.
        case.unexplained = unexplained and judgement.status == IMPOSSIBLE and (self._once or explained is None)
        case.take(judgement)
        case.note_wait(view.now_at_s)
        case.judge_at_s = view.now_at_s + JUDGED_AGAIN_S.get(judgement.status, 0.0)
        if view.now_at_s < case.settles_at_s:
            case.judge_at_s = case.settles_at_s
        if judgement.status == PLANNED and not self._dry_run and not self._may_write:
            case.status, case.reason = (
                WAITING,
                Reason(OTHER_RESCUER, f"{self._lease.holder or 'another program'} makes room at the moment"),
            )
            case.judge_at_s = view.now_at_s + JUDGED_AGAIN_S[WAITING]
            return False
        first = self._goes_first(case, judgement.kept_by, view) if judgement.status == PLANNED and not self._dry_run else None
        if first is not None:
            case.queue(view.now_at_s, first)
            case.judge_at_s = view.now_at_s + JUDGED_AGAIN_S[WAITING]
            return False
        choice = judgement.choice
        changed = choice is not None and self._clearing.begin(case, judgement, choice, view)
        if judgement.reason.code == ROOM_BECOMING_FREE and not case.recalled and self._may_write:
            changed = self._clearing.resume(case, view)
        if judgement.status == IMPOSSIBLE and case.evicted and judgement.reason.code == NO_NODE and not case.may_change_soon:
            case.end(FAILED, Reason(NO_OTHER_NODE, f"{len(case.evicted)} pods were evicted, and then {judgement.reason}"))
        self._say(case)
        return changed

    def _goes_first(self, case: Case, kept_by: t.Optional[str], view: View) -> t.Optional[Reason]:
        """The rescue that has to end before pods are evicted for this one; None where there is none.

        Taints and evictions for one pod make the scheduler try the others, and clear their nominations. While a nomination alone keeps a
        node, no other rescue begins.
        """
        if self._options.hold == NONE:
            return None
        hinders = Case.is_under_way if kept_by == BY_NOMINATION else Case.is_kept_by_nomination
        others = (other for other in self.cases.values() if other is not case)
        first = next((other for other in others if hinders(other, view.now_at_s, view.snapshot)), None)
        if first is None:
            return self._is_next_instead(case, view)
        return Reason(OTHER_RESCUE, f"pod {first.name} is rescued first, because only a nomination keeps the capacity for one of both pods")

    def _is_next_instead(self, case: Case, view: View) -> t.Optional[Reason]:
        """The pod that has waited for other rescues for long enough, and begins before this one; None where there is none.

        Without that, rescues of less important pods could follow each other, and delay that pod without end.
        """
        waiting = [one for one in self.cases.values() if one.is_next(view.now_at_s)]
        if case.stage == CLEARING or not waiting:
            return None
        importance = {one.uid: effective_priority(one.pod, self._options) for one in (case, *waiting)}
        first = min(waiting, key=lambda one: (-importance[one.uid], one.queued_since_s, one.name))
        if first is case or importance[case.uid] > importance[first.uid]:
            return None
        return Reason(OTHER_RESCUE, f"pod {first.name} is rescued first, because it has waited for other rescues for a long time")

    @property
    def _may_write(self) -> bool:
        """A node may be held now."""
        return self._lease.held and self.accepting and not self._dry_run

    def _unless_settling(self, case: Case, judgement: Judgement, view: View) -> Judgement:
        """The judgement, or that the scheduler still has its time, which begins when a plan becomes possible."""
        possible = judgement.status == PLANNED
        if possible and not case.possible and not self._dry_run:
            case.settle_again(view.now_at_s, self._options.settle_time)
        case.possible = possible
        if view.now_at_s >= case.settles_at_s or judgement.status == WAITING:
            return judgement
        text = f"the scheduler has {self._options.settle_time} s to place it by itself"
        return Judgement(case.pod, WAITING, Reason(SETTLING, text))

    def _judgement(self, case: Case, view: View, facts: Facts, *, explain: bool) -> t.Optional[Judgement]:
        """The judgement of the pod on the view, which pods that are alike share; None where the next judgement needs a newer view.

        On a large cluster judgements take long. Between two of them new pods, releases and signals are due.
        """
        same = None if view.planner.is_in_use_for(case.uid) else alike(case.pod, facts, view.snapshot, self._options)
        key = (same, explain) if same is not None else None
        known = view.judged.get(key) if key is not None else None
        if known is not None and known.status != PLANNED:
            return replace(known, pod=case.pod)
        if not explain and _is_old(view):
            return None
        judgement = view.planner.judge(case.pod, facts, explain=explain)
        if judgement.status == PLANNED:
            view.judged.clear()  # a plan takes capacity and budgets from the others
        view.judged[key or case.uid] = judgement
        return judgement

    def _say(self, case: Case) -> None:
        """Tell what has become another; why no eviction helps is told with the reasons."""
        said, reason = case.said, case.reason
        if reason is UNEXPLAINED:
            return
        if said is not None and reason is not None and said.code == reason.code and (case.status != PLANNED or said == reason):
            return
        case.said = reason
        self._witness.judged(case)
        # Of several copies of a daemon the one that leads writes the Events.
        if case.reason is None or self._dry_run or not (self._once or self._lease.held):
            return
        if case.status == IMPOSSIBLE or case.reason.code in REFUSALS:
            event = REFUSALS.get(case.reason.code, "RescueImpossible")
            self._teller.of_pod(case.pod, event, str(case.reason), warning=case.status == IMPOSSIBLE)

    def _conclude(self, case: Case, view: View) -> bool:
        """Release the node, write the result of the attempt, and tell everybody.

        What cannot be written now is written later: ``Holds.tidy`` releases the node, and ``_step`` writes the result.
        """
        if self._dry_run:
            return False
        if self._lease.held:
            self._clearing.release(case, view.snapshot.nodes)
            self._settle(case, view)
        self._witness.ended(case)
        return True

    def _make_up(self, case: Case, view: View) -> None:
        """Do for a case that has ended what could not be written at its end. ``Holds.tidy`` goes on with what is in ``left``."""
        if self._dry_run or not self._lease.held:
            return
        if case.hold is not None and case.node not in self.holds.left:
            self._clearing.release(case, view.snapshot.nodes)
        self._settle(case, view)

    def _settle(self, case: Case, view: View) -> None:
        if not case.unsettled or view.now_at_s < case.retry_at_s:
            return
        try:
            self._clearing.settle(case, view)
        except KubeError as error:
            self._witness.troubled(f"{case.name}: the result of the attempt is not written: {error}")
            if is_transient(error) or isinstance(error, ConflictError):
                case.retry_at_s = view.now_at_s + TROUBLED_FOR_S
                return
        case.settled = True
        if case.status in (FAILED, RESCUED):
            warning = case.status == FAILED
            self._teller.of_pod(case.pod, "RescueFailed" if warning else "Rescued", str(case.reason), warning=warning)

    def _check_records(self, view: View) -> None:
        """Correct what programs that have ended left in the ConfigMap, and write what has become of rescued pods. Only the leader does.

        The first is done once after the Lease was taken.
        """
        if not self._lease.held:
            self._records_checked = False
            return
        if self._dry_run or view.now_at_s < self._check_records_at_s:
            return
        try:
            if not self._records_checked:
                settle_leftovers(self._records, view.snapshot, self.cases, now_s=view.now_s)
                self._rescued.load(self._records.read())
                self._records_checked = True
            self._rescued.check(view.snapshot, view.now_s)
        except KubeError as error:
            self._witness.troubled(f"attempts in the ConfigMap may be out of date: {error}")
            self._check_records_at_s = view.now_at_s + TROUBLED_FOR_S
        names = self._records.dropped
        if names:
            shown = f"{', '.join(names[:MOST_NAMED])}{' and others' if len(names) > MOST_NAMED else ''}"
            self._witness.troubled(f"the ConfigMap is full: it no longer has all that is known of the attempts for {shown}")
            names.clear()

    def _forget(self, case: Case, view: View) -> bool:
        """A daemon goes on: what has failed may be tried again, as often as the attempts allow."""
        if self._dry_run and case.status == PLANNED and _end_of(case, leading=False) is None:
            return self._plan_again(case, view)
        if not self._once and not self._owes(case):
            del self.cases[case.uid]
            if case.status == FAILED and not case.gone:
                again_at_s = view.now_at_s + JUDGED_AGAIN_S[IMPOSSIBLE]
                self.cases[case.uid] = Case(case.pod, since_s=case.since_s, settles_at_s=again_at_s, patience_s=case.patience_s)
        return False

    def _owes(self, case: Case) -> bool:
        """The result is still to be written, and no other program has the Lease, which would write it instead."""
        return case.unsettled and not self._dry_run and self._lease.holder in ("", self._writer)

    def _plan_again(self, case: Case, view: View) -> bool:
        """A dry run that goes on: the plan stands for a while, and is then made anew without itself in the way."""
        if self._once or view.now_at_s < case.judge_at_s + JUDGED_AGAIN_S[IMPOSSIBLE]:
            return False
        case.stage, case.status = WATCHED, ""
        return True

    def _troubled(self, case: Case, error: KubeError, view: View) -> bool:
        """A request has failed for good, or for now; forbidden ones do not get better by themselves."""
        self._witness.troubled(f"{case.name}: {error}")
        case.retry_at_s = case.judge_at_s = view.now_at_s + TROUBLED_FOR_S
        case.queued_since_s = math.inf  # others need not wait for a rescue that cannot begin
        # A node that is held must not wait for what does not get better, nor for ever for what may.
        in_vain = case.stage == CLEARING and (not is_transient(error) or view.now_at_s > case.give_up_at_s)
        if is_permission_error(error) or in_vain:
            case.end(FAILED, Reason("error", str(error)))
            return self._conclude(case, view)
        return False

    def _rest_s(self, view: View) -> float:
        times = [case.settles_at_s if case.settles_at_s > view.now_at_s else case.judge_at_s for case in self._of(WATCHED)]
        times += [min(case.give_up_at_s, case.retry_at_s or case.give_up_at_s) for case in self._of(CLEARING)]
        ahead = [at_s - view.now_at_s for at_s in times if at_s > view.now_at_s]
        return min([self._idle_s, *([AT_WORK_S] if self.at_work else []), *ahead])

    def _of(self, stage: str) -> list[Case]:
        return [case for case in self.cases.values() if case.stage == stage]


def _is_old(view: View) -> bool:
    """No further judgement begins on it: on a newer one there may be a new pod, or a node to be released."""
    return bool(view.judged) and time.monotonic() - view.now_at_s > SLICE_S


def _end_of(case: Case, *, leading: bool) -> t.Optional[tuple[str, Reason]]:
    """How the case has ended, if it has: the pod is bound, or there is none any more.

    Only the leader knows that no rescue has helped.
    """
    if case.gone or case.pod.terminating or case.pod.terminal:
        return POD_GONE, Reason("pod_gone", f"the pod was deleted before it was bound; {len(case.evicted)} pods had been evicted for it")
    if not case.pod.spec.node_name:
        return None
    if leading and not case.changed:
        return RESCUED, Reason("bound", f"the scheduler has placed it on node {case.pod.spec.node_name} by itself")
    return RESCUED, Reason("bound", f"it is on node {case.pod.spec.node_name}")
