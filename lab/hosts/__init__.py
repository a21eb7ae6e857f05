# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Freshly installed Debian machines: containers with systemd, without a way to the internet.

`python -m lab hosts up` starts them. They have a local repository of packages, and the lab has release archives of node_exporter for them.
"""
