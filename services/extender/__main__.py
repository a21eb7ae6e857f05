# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Start the extender by ``python -m ansible_collections.onprem.kube_scheduling.services.extender``."""

from __future__ import annotations

import logging
import os
import sys

from .cli import main

if __name__ == "__main__":
    code = main(sys.argv[1:], os.environ)
    logging.shutdown()
    sys.stdout.flush()
    # A thread that waits for a server that does not answer must not delay the end of the process.
    os._exit(code)
