# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The check of the settings of a program on the controller, before they are in the cluster. The program reads them with the same code."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path

import yaml

SERVICES = "ansible_collections.onprem.kube_scheduling.services"


def settings_mistakes(program, label, settings):
    """Return a sentence for each mistake in the settings of a program. ``label`` is the beginning of the sentences.

    Variables of the environment do not count, and files that the settings name are not read: the controller does not have them.
    """
    # The libraries of the programs are needed only here.
    common = importlib.import_module(f"{SERVICES}.common.settings")
    reader = importlib.import_module(f"{SERVICES}.{'extender.config' if program == 'extender' else program}.settings")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "settings.yml")
        file.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
        try:
            arguments = [f"--config={file}"], {}
            read = reader.read_settings(reader.read_inputs(*arguments)) if program == "extender" else reader.read_settings(*arguments)
            found = getattr(read, "refused", ())  # agents that the extender leaves out
        except common.SettingsError as error:
            found = map(str, common.errors_of(error))
        return [_labelled(text, f"file {file}", label) for text in found]


def _labelled(text, file, label):
    return f"{label}: {text.removeprefix(file).lstrip(':, ')}" if text.startswith(file) else text
