# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Start the rebalancer by ``python -m ansible_collections.onprem.kube_scheduling.services.rebalancer``."""

from __future__ import annotations

import logging
import os
import sys

from .cli import main

if __name__ == "__main__":
    code = main(sys.argv[1:], os.environ)
    logging.shutdown()
    # A thread that waits for the end of a rollout must not delay the end of the process.
    os._exit(code)
