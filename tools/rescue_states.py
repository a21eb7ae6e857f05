# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The states of a rescue for the page about the architecture: a picture and the table of the transitions."""

from __future__ import annotations

from ansible_collections.onprem.kube_scheduling.plugins.module_utils.operations.rescue.states import (
    REMOVED,
    STATES,
    TRANSITIONS,
    Transition,
)


def states_text() -> str:
    """Return the picture and the tables."""
    return "\n".join((_picture(), _states(), _table()))


def _picture() -> str:
    """Return the changes of the state. Transitions that keep it are only in the table."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for row in TRANSITIONS:
        for state in row.states:
            if row.after not in ("", state):
                arrows.setdefault((state, row.after), []).append(row.event.replace("_", " "))
    first = next(iter(STATES))
    lines = [f"    {state} --> {_name(after)}: {', '.join(events)}" for (state, after), events in arrows.items()]
    return "\n".join(("```mermaid", "stateDiagram-v2", f"    [*] --> {first}", *lines, "```", ""))


def _states() -> str:
    rows = [f"| `{state}` | {waits_for} |" for state, waits_for in STATES.items()]
    return "\n".join(("| state | waits for |", "|---|---|", *rows, ""))


def _table() -> str:
    rows = [_row(row) for row in TRANSITIONS]
    return "\n".join(("| state | event | meaning | effect | next state |", "|---|---|---|---|---|", *rows, ""))


def _row(row: Transition) -> str:
    states = ", ".join(f"`{state}`" for state in row.states)
    effect = (row.effect.__doc__ or "").partition("\n")[0].rstrip(".")
    after = "the same" if not row.after else "–" if row.after == REMOVED else f"`{row.after}`"
    return f"| {states} | `{row.event}` | {row.meaning} | {effect} | {after} |"


def _name(state: str) -> str:
    return "[*]" if state == REMOVED else state
