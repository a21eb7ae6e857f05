# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""python -m ansible_collections.onprem.kube_scheduling.services.rescuer"""

from __future__ import annotations

import logging
import os
import sys

from .cli import main

if __name__ == "__main__":
    code = main(sys.argv[1:], os.environ)
    logging.shutdown()
    # A thread that still waits for a silent API server must not keep the process.
    os._exit(code)
