# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""Notices that FILE has changed, and reads it again."""

from __future__ import annotations

from ...common.document import digest_of
from ...common.log import Log
from ...common.typed_settings import SettingsError
from ..metrics import Metrics
from ..reload_faults import FILE_FAULT, ReloadFaults
from .settings import Inputs, Settings, read_settings

RESTART_NEEDED = ("listen", "status_address", "log_format", "log_level", "record", "server")
"""The settings that take effect only at the next start."""


class ConfigWatch:
    """The settings in use. A FILE that cannot be used leaves them unchanged, with a line in the log, a metric and a fault for the pages."""

    def __init__(self, inputs: Inputs, settings: Settings, metrics: Metrics, faults: ReloadFaults, log: Log) -> None:
        self._inputs, self.settings = inputs, settings
        self._at_start = settings
        self._metrics, self._faults, self._log = metrics, faults, log
        self._file, self._digest = inputs.given.file, settings.values.document.digest

    def changed(self) -> Settings | None:
        """Return the new settings if FILE has changed and can be used.

        The content is compared, because the kubelet changes a mounted ConfigMap by a link to another folder.
        """
        try:
            digest = digest_of(self._file)
        except OSError as error:
            self._refuse(b"", [f"file {self._file} cannot be read: {error.strerror or error}"])
            return None
        if digest == self._digest:
            return None
        try:
            settings = read_settings(self._inputs, self.settings)
        except SettingsError as error:
            self._refuse(digest, list(error.errors))
            return None
        # Otherwise the same FILE would fail again every few seconds.
        except Exception as error:
            self._refuse(digest, [f"{type(error).__name__}: {error}"])
            return None
        self._digest = digest
        self._metrics.configuration_valid.set(1)
        self._faults.remove(FILE_FAULT)
        self._metrics.reloads.labels("success").inc()
        for name in RESTART_NEEDED:
            if getattr(settings, name) not in (getattr(self.settings, name), getattr(self._at_start, name)):
                self._log.warning(f"{name} has changed in FILE: the new value is used after a restart")
        self.settings = settings
        return settings

    def _refuse(self, digest: bytes, errors: list[str]) -> None:
        if digest == self._digest:
            return
        self._digest = digest
        self._metrics.configuration_valid.set(0)
        self._metrics.reloads.labels("failure").inc()
        self._faults.note(FILE_FAULT, errors)
        self._log.error(FILE_FAULT, file=self._file, error="; ".join(errors))
