# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: onprem.kube_scheduling contributors
"""The result of a check in the format that ``--output`` names."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import typing as t
from collections.abc import Mapping
from datetime import UTC, datetime

import yaml

from ...plugins.module_utils.report.html_page import render_html
from ...plugins.module_utils.report.markdown import render_markdown
from ...plugins.module_utils.report.rows import Report, build_report
from ...plugins.module_utils.report.text_map import render_text
from .flags import HTML, JSON, MARKDOWN, WIDE, YAML

NO_LIMIT = sys.maxsize
"""The width of a map with all columns."""

PIPED_COLUMNS = 120
"""The width of a map that is not written to a terminal."""


def write_result(result: Mapping[str, t.Any], form: str, *, environment: Mapping[str, str], output: t.TextIO) -> None:
    """Write the result of a check. ``form`` is a value of ``--output``, or empty for the map.

    Nothing is raised if the reader of ``output`` has ended, as ``head`` does.
    """
    if isinstance(output, io.TextIOWrapper):
        # A map has signs that are not in every encoding. Formats for programs are UTF-8.
        output.reconfigure(errors="replace") if form in ("", WIDE) else output.reconfigure(encoding="utf-8")
    try:
        output.write(_text(result, form, environment, output).rstrip("\n") + "\n")
        output.flush()
    except BrokenPipeError:
        # Otherwise Python writes an error when it closes the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())


def _text(result: Mapping[str, t.Any], form: str, environment: Mapping[str, str], output: t.TextIO) -> str:
    if form == JSON:
        return json.dumps(result, indent=2, ensure_ascii=False)
    if form == YAML:
        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        return yaml.dump(dict(result), Dumper=dumper, sort_keys=False, allow_unicode=True, width=PIPED_COLUMNS)
    report = build_report(result)
    if form == HTML:
        return render_html(report, time=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    if form == MARKDOWN:
        return render_markdown(report)
    return _map(report, environment, output, wide=form == WIDE)


def _map(report: Report, environment: Mapping[str, str], output: t.TextIO, *, wide: bool) -> str:
    on_terminal = output.isatty()
    color = on_terminal and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
    if wide:
        return render_text(report, width=NO_LIMIT, max_rows=None, color=color)
    width = shutil.get_terminal_size((PIPED_COLUMNS, 0)).columns if on_terminal or environment.get("COLUMNS") else PIPED_COLUMNS
    return render_text(report, width=width, color=color)
