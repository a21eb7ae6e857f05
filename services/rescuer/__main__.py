# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Start the rescuer by ``python -m ansible_collections.onprem.kube_scheduling.services.rescuer``."""

from __future__ import annotations

import logging
import os
import sys

from .cli import main

if __name__ == "__main__":
    code = main(sys.argv[1:], os.environ)
    logging.shutdown()
    # A thread that waits for an API server that does not answer must not delay the end of the process.
    os._exit(code)
