# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Ten nodes whose risk and scores were calculated with the formula of kube-safe-scheduler."""

from __future__ import annotations

VECTORS = [
    (0.5, 0.1, True, 9, 6),
    (0.7, 0.1, True, 8, 5),
    (0.8, 0.1, True, 2, 4),
    (0.85, 0.05, True, 2, 5),
    (0.85, 0.1, False, 0, 4),
    (0.88, 0.05, False, 0, 4),
    (0.3, 0.2, True, 9, 6),
    (0.6, 0.0, True, 10, 7),
    (0.95, 0.0, False, 0, 5),
    (0.5, 0.5, False, 0, 4),
]
"""Mean, deviation, accepted by the predicate, score of safe-overload, score of safe-balance: ten vectors of the original."""
