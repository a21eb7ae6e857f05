# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The work of a leading rescuer that the next leader continues: held nodes, and evictions without an answer."""

from __future__ import annotations

from ...plugins.module_utils.operations.rescue.shutdown import RescueShutdown


class RescueWork:
    """The holds and evictions of a controller, as a ``LeaderWork``."""

    def __init__(self, shutdown: RescueShutdown) -> None:
        self._shutdown, self._controller = shutdown, shutdown.controller

    @property
    def pending_write(self) -> str:
        """The eviction that may still be carried out. The next leader does not know of it, so it must not begin too early."""
        return "an eviction is not answered yet" if self._controller.has_pending_evictions else ""

    def hand_over(self) -> str:
        """Release the holds that this program has not finished."""
        self._shutdown.release_own_holds()
        left = sorted(self._shutdown.still_held)
        return f"these nodes were not released; the next leader releases them: {', '.join(left)}" if left else ""

    def abandon(self) -> None:
        """Leave the held nodes to the next leader."""
        self._controller.abandon_holds()
