# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The archive in which Ansible packs the sources of a module, and how often Python compiles each of them."""

from __future__ import annotations

import sys
import typing as t
from zipimport import ZipImportError, zipimporter


class _CompilesOnce(zipimporter):
    """Loads sources from an archive, and compiles each of them once.

    Python asks an importer for the path of a module's file before it loads the module. ``zipimporter`` compiles the source to answer that,
    and compiles it again to load it.
    """

    def get_filename(self, fullname: str) -> str:
        """Return the path of the module's file. Raises ZipImportError where the archive does not have the module."""
        rest = "/__init__.py" if self.is_package(fullname) else ".py"
        return f"{self.archive}/{self.prefix}{fullname.rpartition('.')[2]}{rest}"


def compile_once() -> None:
    """Compile what is imported from now on from the archive of this file once, and not twice. Without an archive nothing changes.

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
