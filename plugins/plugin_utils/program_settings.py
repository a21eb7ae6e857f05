# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The check of the settings of a program on the controller, before they are in the cluster. The program reads them with the same code."""

from __future__ import annotations

import tempfile
from pathlib import Path

import yaml


def settings_mistakes(program, label, settings):
    """Return a sentence for each mistake in the settings of a program. ``label`` is the beginning of the sentences.

    Variables of the environment do not count, and files that the settings name are not read: the controller does not have them.
    """
    # The libraries of the programs are needed only here.
    from ansible_collections.onprem.kube_scheduling.services.common.settings import SettingsError, errors_of

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "settings.yml")
        file.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
        try:
            found = list(_refused(program, f"--config={file}"))
        except SettingsError as error:
            found = map(str, errors_of(error))
        return [_labelled(text, f"file {file}", label) for text in found]


def _refused(program, argument):
    """Read the settings, and return what the program would leave out. Raises SettingsError."""
    if program == "extender":
        from ansible_collections.onprem.kube_scheduling.services.extender.config.settings import read_inputs, read_settings

        return read_settings(read_inputs([argument], {})).refused
    if program == "rebalancer":
        from ansible_collections.onprem.kube_scheduling.services.rebalancer.settings import read_settings
    else:
        from ansible_collections.onprem.kube_scheduling.services.rescuer.settings import read_settings
    read_settings([argument], {})
    return ()


def _labelled(text, file, label):
    return f"{label}: {text.removeprefix(file).lstrip(':, ')}" if text.startswith(file) else text
