# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Refusal: it is outside of the maintenance window of the workload or of its namespace, or the window cannot be read."""

from __future__ import annotations

import typing as t

from ...model.api.namespace import Namespace
from ...model.api.workload import Workload
from ...model.reason import Reason
from ...model.snapshot import ClusterSnapshot
from ...model.values.timestamps import format_time
from ...state.maintenance_window import (
    EXAMPLE,
    INVALID_WINDOW,
    NO_TIME_ZONES,
    OUTSIDE_WINDOW,
    WINDOW_ANNOTATION,
    InvalidWindowError,
    NoTimeZonesError,
    annotated_window,
    is_inside,
    next_opening_s,
    parse_windows,
    shown,
)


def outside_window_violation(
    workload: Workload, snapshot: ClusterSnapshot, *, now_s: float, namespace: t.Optional[Namespace] = None
) -> t.Optional[Reason]:
    """Return the reason if no pod of the workload may be moved at ``now_s``. None inside of the window, and without a window.

    ``now_s`` is in seconds since the epoch, by the API server's clock. ``namespace`` is the workload's namespace if it was read after the
    snapshot.
    """
    namespace = namespace or snapshot.namespaces.get(workload.metadata.namespace)
    found = annotated_window(workload.metadata.annotations, namespace.metadata.annotations if namespace is not None else None)
    if found is None:
        return None
    owner = f"namespace {workload.metadata.namespace}" if found.of_namespace else "the workload"
    annotation = f"annotation {WINDOW_ANNOTATION} of {owner}"
    try:
        windows = parse_windows(found.text)
    except InvalidWindowError as error:
        return Reason(INVALID_WINDOW, f"the {annotation} cannot be read, which protects {workload}: {error}; an example is {EXAMPLE!r}")
    except NoTimeZonesError as error:
        return Reason(NO_TIME_ZONES, f"the {annotation} cannot be applied, which protects {workload}: {error}")
    if is_inside(windows, now_s):
        return None
    opening_s = next_opening_s(windows, now_s)
    opens = "" if opening_s is None else f"; the next window opens at {format_time(opening_s)}"
    return Reason(OUTSIDE_WINDOW, f"{workload} is outside of its maintenance window, {shown(found.text)} ({annotation}){opens}")
