# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The settings of the extender that have a flag and a variable. The others are only in FILE."""

from __future__ import annotations

import typing as t

from ....plugins.module_utils.model.values.shown import shown_value
from ...common.options import LOG_FORMATS, LOG_LEVELS, SWITCH, Kind, Option, one_of, parse_text
from ...common.settings import Program

LEVELS_OF_ORIGINAL = {"trace": "debug", "alert": "error"}
"""The levels of kube-safe-scheduler that this program does not have, and the nearest of its levels."""


def parse_level(value: t.Any) -> str:
    """Return the level of the log in lower case. Raises ValueError."""
    text = parse_text(value).strip().lower()
    return one_of(*LOG_LEVELS)(LEVELS_OF_ORIGINAL.get(text, text))


def parse_address_text(value: t.Any) -> str:
    """Return the text of an address. Raises ValueError, also for a port alone, which YAML reads as a number."""
    if not isinstance(value, str):
        raise ValueError(f"{shown_value(value)} is no address: write it as HOST:PORT, [IPV6]:PORT or :PORT")
    return value


OPTIONS = (
    Option(
        "listen", Kind("HOST:PORT", parse_address_text), "the address for the scheduler; :8080 for all addresses (0.0.0.0:8080)", own=True
    ),
    Option(
        "status_address",
        Kind("HOST:PORT", parse_address_text),
        "a second address for people, probes and Prometheus, without TLS; it does not serve the scheduler (none)",
        own=True,
        may_be_empty=True,
    ),
    Option("log_level", Kind("|".join((*LOG_LEVELS, *LEVELS_OF_ORIGINAL)), parse_level), "the lowest level of the lines (info)", own=True),
    Option("log_format", Kind("|".join(LOG_FORMATS), one_of(*LOG_FORMATS)), "one JSON object a line, or readable text (json)", own=True),
    Option("record", Kind("FILE", parse_text), "write the requests of the scheduler to this file, to develop an agent with them", own=True),
    Option("check_config", SWITCH, "check the settings and end: 0 good, 2 bad", own=True),
    Option("check_sources", SWITCH, "read the sources once, print the values of each node and end: 0 good, 2 bad", own=True),
)

PROGRAM = Program("extender", "Scores and filters nodes for kube-scheduler by live signals.", OPTIONS, example="listen: 0.0.0.0:8080")

FILE_ONLY = ("sources", "profiles", "server")
