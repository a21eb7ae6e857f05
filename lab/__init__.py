# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated cluster: a real control plane with kwok nodes, driven from Python.

`python -m lab up` starts it; tests and the demo use `lab.cluster.Cluster`.
"""
