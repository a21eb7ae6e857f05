# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The states of a rescue, and the transitions between them.

One rescue is in three files. ``decisions.py`` decides which event has ended the wait in the present state. This table has the effect of the
event and the state that follows. ``effects.py`` has the effects. All of them use the data in ``task.py``, and ``controller.py`` calls them
for all rescues of a program.
"""

from __future__ import annotations

import typing as t

from .effects import Effects
from .environment import ReconcileView
from .task import BINDING, ENDED, EVICTING, WATCHED, Event, NotPossibleError, RescueTask

REMOVED = "removed"
"""Not a state of a rescue: it is not kept any more."""

STATES = {
    WATCHED: "a plan whose evictions can begin",
    EVICTING: "the end of the victims, of which one after the other is evicted",
    BINDING: "the scheduler, which binds the pod to the node",
    ENDED: "the last writes: the release of the node, and the record of the result",
}
"""The states, each with what the rescue waits for."""

CLEARING = (EVICTING, BINDING)
"""The states in which a node is being cleared for the pod."""
BEFORE_THE_END = (WATCHED, *CLEARING)

Effect = t.Callable[[Effects, RescueTask, ReconcileView, t.Any], None]


class Transition(t.NamedTuple):
    """A row of the table.

    ``meaning``: what has ended the wait. ``after``: the state that follows; empty if the state stays the same. ``outdates``: the cluster
    must be observed again before the next step.
    """

    states: tuple[str, ...]
    event: str
    meaning: str
    effect: Effect
    after: str = ""
    outdates: bool = True


TRANSITIONS = (
    # The plan, while no node is being cleared.
    Transition((WATCHED,), "waits", "it fits, or other pods must end first", Effects.nothing, outdates=False),
    Transition((WATCHED,), "impossible", "no eviction helps", Effects.nothing, outdates=False),
    Transition((WATCHED,), "held_back", "settle time, no Lease, or another rescue is first", Effects.hold_back, outdates=False),
    Transition((WATCHED,), "possible", "evictions help", Effects.start, EVICTING),
    Transition((WATCHED,), "resumable", "pods end that another program has evicted for it", Effects.resume, EVICTING),
    Transition((WATCHED,), "hold_found", "another program has held a node for it", Effects.take_over, EVICTING),
    Transition((WATCHED,), "planned", "all dry runs were granted in check mode", Effects.finish, ENDED, outdates=False),
    # The plan on the node that is being cleared.
    Transition(CLEARING, "evict", "a victim must be evicted", Effects.evict, EVICTING),
    Transition(CLEARING, "fits", "the pod fits", Effects.nominate, BINDING, outdates=False),
    Transition(CLEARING, "queued", "another rescue is first, and a taint holds the node", Effects.keep_node, outdates=False),
    Transition(CLEARING, "another_first", "another rescue is first, and no taint holds the node", Effects.release_for_now, WATCHED),
    Transition(CLEARING, "outdated", "the plan was outdated before the first eviction", Effects.plan_again, WATCHED),
    Transition(CLEARING, "given_up", "evictions do not help there any more", Effects.give_up, WATCHED),
    Transition(CLEARING, "lease_lost", "the Lease is lost", Effects.abandon, WATCHED),
    # Requests that have failed.
    Transition((*BEFORE_THE_END, ENDED), "unanswered", "an eviction has no known result", Effects.resolve),
    Transition(BEFORE_THE_END, "error", "another request has failed", Effects.handle_error, outdates=False),
    # The end.
    Transition(BEFORE_THE_END, "over", "bound, gone, or not critical any more", Effects.finish, ENDED),
    Transition(BEFORE_THE_END, "failed", "no other node, a time limit, or a forbidden request", Effects.fail, ENDED),
    Transition((ENDED,), "unwritten", "a last write is due", Effects.complete, outdates=False),
    Transition((ENDED,), "expired", "the plan of a dry run is old", Effects.discard_plan, WATCHED),
    Transition((ENDED,), "done", "nothing is left to write", Effects.nothing, REMOVED, outdates=False),
)
"""The table. Three events can follow instead of an effect that is not possible (NotPossibleError).

They are ``failed``; ``given_up`` while a node is being cleared; and ``planned`` at the start of a dry run.
"""

_ROWS = {(state, row.event): row for row in TRANSITIONS for state in row.states}


def apply(effects: Effects, task: RescueTask, event: Event, view: ReconcileView) -> bool:
    """Carry out the transition of the event. Return whether the cluster must be observed again."""
    row = _ROWS[task.stage, event.name]
    try:
        row.effect(effects, task, view, event.facts)
    except NotPossibleError as error:
        return apply(effects, task, error.event, view) if error.event is not None else error.outdates
    task.stage = row.after or task.stage
    return row.outdates
