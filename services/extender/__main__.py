# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Start the extender by ``python -m ansible_collections.onprem.kube_scheduling.services.extender``."""

from __future__ import annotations

import logging
import os
import sys

try:
    from .cli import main
except ModuleNotFoundError as error:
    if (error.name or "").startswith("ansible_collections"):
        raise
    remedy = "run pip install -r requirements.txt -r services/extender/requirements.txt in the folder of the collection"
    print(f"extender: the library {error.name} is not installed for {sys.executable}: {remedy}", file=sys.stderr)
    sys.exit(2)

if __name__ == "__main__":
    code = main(sys.argv[1:], os.environ)
    logging.shutdown()
    sys.stdout.flush()
    # A thread that waits for a server that does not answer must not delay the end of the process.
    os._exit(code)
