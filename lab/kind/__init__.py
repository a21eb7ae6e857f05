# Copyright: onprem.kube_scheduling contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A real cluster in containers: kind, with a node image that is built from Debian packages and Go modules.

`python -m lab kind up` starts it. No container registry is needed.
"""
