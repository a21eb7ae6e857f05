# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Python imports this file when it starts in a play of a test. It keeps the compiled code of what Ansible sends to hosts.

Ansible sends a module and its libraries as a zip file with sources. Python compiles them in each process, which takes half of the time of
a module. The code is kept in tests/output, by the hash of the source.
"""

import hashlib
import importlib.util
import marshal
import os
import zipimport
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "output" / "compiled-modules"
_compile = zipimport._compile_source


def _kept(path, source):
    """Return the code of a source. Processes that start at the same time may write the same file."""
    file = FOLDER / hashlib.sha256(importlib.util.MAGIC_NUMBER + source).hexdigest()
    try:
        return marshal.loads(file.read_bytes())
    except FileNotFoundError:
        code = _compile(path, source)
    FOLDER.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(f".{os.getpid()}")
    fresh.write_bytes(marshal.dumps(code))
    fresh.replace(file)
    return code


zipimport._compile_source = _kept
