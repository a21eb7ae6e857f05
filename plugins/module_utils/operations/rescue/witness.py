# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""What happens during rescues, for whoever counts or logs it."""

from __future__ import annotations

from ...rescue.plan import Victim
from .case import Case


class Witness:
    """Is told of everything that is done; by itself it does nothing with it."""

    def planned(self, case: Case, seconds: float) -> None:
        """A look at the cluster and the judgement of the pod on it took so long."""

    def judged(self, case: Case) -> None:
        """What is to be done for the pod has become another."""

    def held(self, case: Case) -> None:
        """A node is held for the pod."""

    def evicted(self, case: Case, victim: Victim) -> None:
        """A pod was evicted for it."""

    def released(self, node_name: str, pod_name: str) -> None:
        """A node was given back."""

    def ended(self, case: Case) -> None:
        """The case has ended: ``status`` says how."""

    def troubled(self, what: str) -> None:
        """Something could not be written or read; it is tried again, or not needed."""
