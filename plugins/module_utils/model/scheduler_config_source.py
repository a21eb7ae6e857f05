# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The option ``scheduler_config``: where the configuration of a kube-scheduler is."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from .option_values import OptionError
from .values.shown import shown_value

OPTION = "scheduler_config"
PREFIX = "configmap:"
DEFAULT_KEY = "config.yaml"
FORM = f"write the path of a file, or {PREFIX}NAMESPACE/NAME/KEY"


class SchedulerConfigSource(t.NamedTuple):
    """A file, or a key of a ConfigMap. ``path`` is empty for a ConfigMap."""

    path: str = ""
    namespace: str = ""
    name: str = ""
    key: str = ""

    def __str__(self) -> str:
        return f"the file {self.path}" if self.path else f"the key {self.key} of ConfigMap {self.namespace}/{self.name}"

    @classmethod
    def of(cls, text: str) -> SchedulerConfigSource:
        """Return the source that the text names. Raise OptionError."""
        if not text.startswith(PREFIX):
            if not text.strip():
                raise OptionError(f"{OPTION}: an entry is empty; {FORM}")
            return cls(path=text)
        parts = text[len(PREFIX) :].split("/")
        if len(parts) not in (2, 3) or not all(parts):
            raise OptionError(f"{OPTION}: {shown_value(text)} does not name a ConfigMap; {FORM}. Without a KEY it is {DEFAULT_KEY}")
        return cls("", parts[0], parts[1], parts[2] if len(parts) == 3 else DEFAULT_KEY)


def check_scheduler_config(params: Mapping[str, t.Any]) -> tuple[str, ...]:
    """Return the entries of the option without repetitions. Raise OptionError for one that names neither a file nor a ConfigMap."""
    given = params.get(OPTION) or ()
    for text in given:
        SchedulerConfigSource.of(text)
    return tuple(dict.fromkeys(given))
