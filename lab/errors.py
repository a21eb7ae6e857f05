# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one error a user of the lab has to know.

Its text always names the object, what was wrong with it and what to do.
"""

from __future__ import annotations


class LabError(Exception):
    """Something in the lab failed in a way a person can act on."""
