# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The archive in which Ansible packs the sources of a module: compile each source once instead of twice."""

from __future__ import annotations

import sys
import typing as t
from zipimport import ZipImportError, zipimporter


class _CompilesOnce(zipimporter):
    """An importer that loads sources from an archive and compiles each source once.

    Python calls ``get_filename`` for a module before it loads the module. The method of ``zipimporter`` compiles the source for this, and
    the source is compiled again for the load.
    """

    def get_filename(self, fullname: str) -> str:
        """Return the path of the module's file. Raises ZipImportError if the archive does not have the module."""
        rest = "/__init__.py" if self.is_package(fullname) else ".py"
        return f"{self.archive}/{self.prefix}{fullname.rpartition('.')[2]}{rest}"


def compile_once() -> None:
    """Compile each source that is later imported from the archive of this file once. Without an archive nothing changes.

    A module calls it before its other imports.
    """
    loader = globals()["__loader__"]
    if not isinstance(loader, zipimporter) or isinstance(loader, _CompilesOnce):
        return
    archive = loader.archive

    def hook(path: str) -> t.Any:
        if not path.startswith(archive):
            raise ZipImportError(f"{path} is not in {archive}", path=path)
        return _CompilesOnce(path)

    sys.path_hooks.insert(0, hook)
    for path in [path for path in sys.path_importer_cache if path.startswith(archive)]:
        del sys.path_importer_cache[path]
